-- What a comparison was asked for, and how far its submission is. Counts of trials stand in trial_counts.
create table comparisons (
  -- Ours, and short: it stands in every row of a trial. The client's id is unique only within its workspace.
  key bigint generated always as identity primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  id uuid not null,
  scope_kind text not null check (scope_kind in ('benchmark', 'repository')),
  scope_owner text not null,
  scope_name text not null,
  -- Of the canonical request: the same id with another one is refused.
  request_hash bytea not null,
  state text not null default 'submitting'
    check (state in ('submitting', 'submission_failed', 'running', 'paused', 'completed', 'canceled')),
  -- What the submission does next. Each step is written down in the transaction that makes it.
  step text not null default 'freeze' check (step in ('freeze', 'plan', 'enqueue', 'done')),
  submission_error jsonb,
  pause jsonb,
  sandbox text not null,
  sandbox_credential_id uuid not null,
  skip_completed boolean not null,
  attempts smallint not null check (attempts between 1 and 10),
  settings smallint not null,
  budget_micros bigint,
  trial_budget_micros bigint,
  concurrency integer,
  -- What to freeze: enough to download the same again, also when the benchmark is gone. Empty once it is frozen.
  source jsonb,
  frozen_digest text,
  tasks integer,
  -- Where in the turns of all comparisons this one begins: see the column run_at of its jobs.
  first_turn bigint not null default 0,
  created_at timestamptz(3) not null default now(),
  submit_asked_at timestamptz(3) not null default now(),
  submitted_at timestamptz(3),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  unique (workspace_id, id)
);
create index comparisons_newest on comparisons (workspace_id, scope_kind, scope_owner, scope_name, created_at desc, id desc);
create index comparisons_open on comparisons (state) where state in ('submitting', 'running');

create table comparison_settings (
  comparison bigint not null references comparisons on delete cascade,
  position smallint not null,
  id text not null,
  catalog_id text not null,
  name text not null,
  label text not null,
  provider text not null,
  custom boolean not null,
  harness text not null,
  harness_version text not null,
  reasoning_level text not null,
  credential_id uuid not null,
  -- What stood between its sandboxes and the machine, once a trial has told. 'mixed' when they differ.
  isolation text,
  primary key (comparison, position)
);
create index comparison_settings_alike on comparison_settings (id, harness_version);

create table comparison_tasks (
  comparison bigint not null references comparisons on delete cascade,
  position smallint not null,
  name text not null,
  digest text not null references task_contents,
  primary key (comparison, position)
);
create index comparison_tasks_content on comparison_tasks (digest);

-- Stored credentials that an unfinished comparison needs: they cannot be deleted meanwhile.
create table comparison_credentials (
  comparison bigint not null references comparisons on delete cascade,
  credential_id uuid not null references credentials,
  primary key (comparison, credential_id)
);
create index comparison_credentials_use on comparison_credentials (credential_id);

-- Lean: there are many. Task and setting by their positions; the id on the wire is made of comparison and ordinal.
create table trials (
  comparison bigint not null references comparisons on delete cascade,
  ordinal integer not null,
  task smallint not null,
  setting smallint not null,
  attempt smallint not null,
  state text not null check (state in ('queued', 'running', 'passed', 'failed', 'errored', 'canceled')),
  class text,
  verify_mode text,
  retries smallint not null default 0,
  reward float8,
  cost_micros bigint,
  -- The older trial that fills this place.
  reused_comparison bigint,
  reused_ordinal integer,
  started_at timestamptz(3),
  finished_at timestamptz(3),
  -- The transaction that changed it last: who watches asks for those that it has not seen.
  changed xid8 not null default pg_current_xact_id(),
  voided_at timestamptz(3),
  -- Rewards, timings, usage, isolation, artifacts, error: what is only shown.
  detail jsonb,
  -- One blob for all its artifacts.
  artifacts text,
  primary key (comparison, ordinal)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
create index trials_changed on trials (comparison, changed);
create index trials_kept on trials (finished_at) where artifacts is not null;

-- Attempts of a trial that the infrastructure spoiled, with what is left of them.
create table trial_attempts (
  comparison bigint not null,
  ordinal integer not null,
  number smallint not null,
  class text not null,
  error text not null,
  detail jsonb not null,
  artifacts text,
  at timestamptz(3) not null default now(),
  primary key (comparison, ordinal, number),
  foreign key (comparison, ordinal) references trials on delete cascade
);

create table trial_voids (
  comparison bigint not null,
  ordinal integer not null,
  reason text not null,
  at timestamptz(3) not null default now(),
  primary key (comparison, ordinal),
  foreign key (comparison, ordinal) references trials on delete cascade
);

-- Kept with each trial's change, in the same transaction. In a few parts, so that trials that end together do not wait
-- for each other's commit.
create table trial_counts (
  comparison bigint not null references comparisons on delete cascade,
  setting smallint not null,
  part smallint not null,
  queued integer not null default 0,
  running integer not null default 0,
  passed integer not null default 0,
  failed integer not null default 0,
  errored integer not null default 0,
  canceled integer not null default 0,
  reused integer not null default 0,
  -- New spend: of every attempt, also of those that were spoiled; and of how many trials, with their squares.
  spent_micros bigint not null default 0,
  metered integer not null default 0,
  spent_squares float8 not null default 0,
  -- Tasks by their first scored trial.
  tasks integer not null default 0,
  tasks_passed integer not null default 0,
  tasks_micros bigint not null default 0,
  tasks_unpriced integer not null default 0,
  -- Over all scored trials of a task, its share of passes in 2520ths: exact for up to ten attempts. And its squares.
  shares bigint not null default 0,
  share_squares bigint not null default 0,
  primary key (comparison, setting, part)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The strictest verify mode of a task in a sandbox. Without a mode: no trial of it would mean anything there.
create table task_calibrations (
  digest text not null,
  sandbox text not null,
  verify_mode text,
  -- Networks that its own solution needs and the task does not declare.
  agent_network text,
  verifier_network text,
  reason text,
  at timestamptz(3) not null default now(),
  primary key (digest, sandbox)
);

-- Which sandboxes a worker offers, said again and again while it lives.
create table sandbox_offers (
  worker_id uuid not null,
  sandbox text not null,
  available boolean not null,
  isolation text not null,
  detail text not null,
  seen_at timestamptz(3) not null default now(),
  primary key (worker_id, sandbox)
);
