-- The content of tasks, once for all workspaces: a task is known by its files, an archive by its bytes.
create table task_contents (
  digest text primary key,
  archive text not null,
  bytes bigint not null,
  -- When it was last wanted. What nothing refers to goes some time after.
  used_at timestamptz(3) not null default now()
);

-- A dataset that a workspace has added. Whatever stands here has passed the check.
create table benchmarks (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  dataset_org text not null,
  dataset text not null,
  reference text not null,
  ref text not null,
  resolved_ref text not null,
  digest text not null,
  description text not null,
  tasks integer not null check (tasks > 0),
  -- What the registry said, as it said it: enough to download the same again.
  resolved jsonb not null,
  ruleset text not null,
  warnings jsonb not null,
  -- Where its tasks are tried, once somebody asked for that.
  calibrated_in text,
  added_at timestamptz(3) not null default now(),
  unique (workspace_id, dataset_org, dataset)
);
create index benchmarks_newest on benchmarks (workspace_id, added_at desc, id desc);

create table benchmark_tasks (
  benchmark_id uuid not null references benchmarks on delete cascade,
  name text not null,
  digest text not null references task_contents,
  -- What trying it showed: the mode that fits, and the cheats that win; or why it could not be tried.
  calibration jsonb,
  primary key (benchmark_id, name)
);
create index benchmark_tasks_content on benchmark_tasks (digest);
