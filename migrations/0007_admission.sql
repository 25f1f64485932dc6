-- Who takes turns with whom: `outer/inner`. Outer groups take turns, and within one its inner groups do.
alter table jobs add column fair_group text not null default '/' check (fair_group like '%/%');
-- Of each of these keys the job takes a slot, of all at once. Sorted, each once.
alter table jobs add column limit_keys jsonb not null default '[]' check (jsonb_typeof(limit_keys) = 'array');
update jobs set limit_keys = jsonb_build_array(limit_key) where limit_key <> '';
drop index jobs_queue;
drop index jobs_running;
alter table jobs drop column limit_key;
-- What it takes of its host's memory. 0: nothing worth counting, and its start is not counted either.
alter table jobs add column memory_mb integer not null default 0 check (memory_mb >= 0);
-- Jobs that admission cannot tell apart. The database computes it, so no job can be in the wrong one.
alter table jobs add column lane uuid not null generated always as (
  md5(
    quote_literal(kind) || priority::text || ' ' || quote_literal(fair_group) || limit_keys::text || memory_mb::text
  )::uuid
) stored;

-- The claim walks from lane to lane and looks at the oldest of each.
create index jobs_queue on jobs (lane, run_at, id) where state = 'queued';
-- Without leased_until, so that a heartbeat changes no index.
create index jobs_running on jobs (worker_id) where state = 'running';

-- When jobs that weigh something were last started on a host: those of the last second are enough.
create table host_starts (
  host text primary key,
  started_at timestamptz[] not null
) with (fillfactor = 50);

-- When a fair group (`outer/inner`) and each outer one (no slash) last got a start.
create table job_turns (
  fair_group text primary key,
  served_at timestamptz not null
) with (fillfactor = 50);

-- Comparisons take turns by their fair group now.
alter table comparisons drop column first_turn;
-- What a task says that it needs. Null: it says nothing, or came before we asked.
alter table task_contents add column memory_mb bigint;
