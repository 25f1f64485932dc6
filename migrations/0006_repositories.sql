-- Repositories of plain git have no id of their own. Those of code hosts are far below.
create sequence git_repository_ids start with 1099511627776;

-- A repository that a workspace has connected. One that was removed keeps its row: its batches are there again when it
-- is connected again.
create table repositories (
  key bigint generated always as identity primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  id bigint not null,
  owner text not null,
  name text not null,
  source_kind text not null check (source_kind in ('github', 'git')),
  -- Of the code host; empty for plain git.
  host text not null,
  -- Of plain git.
  url text,
  credential_id uuid,
  -- The same, when it is a stored one: it cannot be deleted meanwhile.
  stored_credential_id uuid references credentials,
  visibility text not null check (visibility in ('public', 'private')),
  connected_at timestamptz(3) not null default now(),
  removed_at timestamptz(3),
  unique (workspace_id, source_kind, host, id),
  check ((source_kind = 'git') = (url is not null))
);
create unique index repositories_name on repositories (workspace_id, lower(owner), lower(name))
  where removed_at is null;
create index repositories_newest on repositories (workspace_id, connected_at desc, id desc);
create index repositories_credential on repositories (stored_credential_id) where stored_credential_id is not null;

-- Archives that were sent in, as they came. What no batch needs any more goes some time after.
create table batch_archives (
  digest text primary key,
  used_at timestamptz(3) not null default now()
);

create table batches (
  id uuid primary key,
  repository bigint not null references repositories on delete cascade,
  state text not null default 'queued'
    check (state in ('queued', 'discovering', 'running', 'waiting', 'completed', 'failed', 'canceled')),
  -- What was sent in, until its tasks are listed.
  archive text references batch_archives,
  -- What is done next: each step is written down in the transaction that makes it.
  step text not null default 'unpack' check (step in ('unpack', 'validate')),
  waiting jsonb,
  error jsonb,
  warnings jsonb not null default '[]',
  created_at timestamptz(3) not null default now(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  check (step = 'validate' or archive is not null)
);
create index batches_newest on batches (repository, created_at desc, id desc);
create index batches_archive on batches (archive);

create table batch_tasks (
  batch uuid not null references batches on delete cascade,
  id text not null,
  state text not null check (state in ('validating', 'ready', 'rejected')),
  title text not null,
  difficulty text check (difficulty in ('easy', 'medium', 'hard')),
  -- Empty when it could not be read, or may not be kept.
  digest text references task_contents,
  rejection jsonb,
  -- Its instruction and the list of its files.
  content jsonb,
  -- What the check and the sandboxes found.
  evidence jsonb not null,
  decision text check (decision in ('approved', 'declined')),
  note text,
  decided_at timestamptz(3),
  primary key (batch, id),
  check ((state = 'rejected') = (rejection is not null)),
  check (state = 'ready' or decision is null),
  check (state = 'rejected' or digest is not null)
);
create index batch_tasks_content on batch_tasks (digest);
