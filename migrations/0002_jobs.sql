create table jobs (
  id uuid primary key,
  kind text not null,
  payload jsonb not null,
  state text not null default 'queued' check (state in ('queued', 'running', 'failed', 'canceled')),
  priority smallint not null default 0,
  -- At most job_limits.slots jobs that share this key run at once, over all workers. Empty: no key.
  limit_key text not null default '',
  run_at timestamptz not null default now(),
  -- Raised by every claim.
  attempt integer not null default 0,
  failures integer not null default 0,
  failures_max integer not null,
  -- How often its lease ran out: the worker died, froze or lost the database.
  crashes integer not null default 0,
  -- Not null: the job comes back this long after it is done.
  every_seconds integer check (every_seconds > 0),
  -- New with every claim. A write that names another lease comes from a worker that lost the job.
  -- The attempt would not do: it begins again when a job that is done is enqueued again under its old id.
  lease_id uuid,
  leased_until timestamptz,
  worker_id uuid,
  cancel_requested boolean not null default false,
  error text,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  check ((state = 'running') = (lease_id is not null and leased_until is not null and worker_id is not null))
) with (
  -- Every job leaves dead rows at the head of the queue's index; the defaults wait for a fifth of the table.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
-- The claim walks from group to group (kind, limit_key, priority) and takes the oldest of each.
create index jobs_queue on jobs (kind, limit_key, priority, run_at, id) where state = 'queued';
-- Without leased_until, so that a heartbeat changes no index.
create index jobs_running on jobs (limit_key) where state = 'running';
create index jobs_ended on jobs (finished_at) where state in ('failed', 'canceled');

create table job_limits (
  key text primary key check (key <> ''),
  slots integer not null check (slots >= 0)
);

create table workers (
  id uuid primary key,
  host text not null,
  process_id integer not null,
  started_at timestamptz(3) not null default now(),
  seen_at timestamptz(3) not null default now()
);
