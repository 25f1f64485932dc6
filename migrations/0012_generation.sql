-- Batches that are made of merged pull requests. Those that were imported ask for nothing and have no generation.
alter table batches add column easy integer not null default 0 check (easy >= 0);
alter table batches add column medium integer not null default 0 check (medium >= 0);
alter table batches add column hard integer not null default 0 check (hard >= 0);
-- Which models, credentials and sandboxes. Ids only.
alter table batches add column generation jsonb;
-- Also pull requests that an earlier batch has tried.
alter table batches add column again boolean not null default false;
alter table batches add column budget_micros bigint check (budget_micros >= 0);
-- Pull requests that were looked at, and those of them that could become tasks.
alter table batches add column discovered integer;
alter table batches add column screened integer;
alter table batches drop constraint batches_step_check;
alter table batches add check (step in ('unpack', 'validate', 'discover', 'make'));
alter table batches drop constraint batches_check;
alter table batches add check ((step = 'unpack') = (archive is not null));
alter table batches add check ((generation is not null) = (step in ('discover', 'make')));
create index batches_open on batches (state) where state in ('queued', 'discovering', 'running', 'waiting');

-- Stored credentials that a batch needs while it is open: they cannot be deleted meanwhile.
create table batch_credentials (
  batch uuid not null references batches on delete cascade,
  credential_id uuid not null references credentials,
  primary key (batch, credential_id)
);
create index batch_credentials_use on batch_credentials (credential_id);

alter table batch_tasks drop constraint batch_tasks_state_check;
alter table batch_tasks add check (state in ('making', 'validating', 'ready', 'rejected'));
alter table batch_tasks drop constraint batch_tasks_check2;
alter table batch_tasks add check (state in ('making', 'rejected') or digest is not null);
alter table batch_tasks add column requested_difficulty text check (requested_difficulty in ('easy', 'medium', 'hard'));
-- What was known of the pull request when it was chosen: what is shown of it, and what the stages begin with.
alter table batch_tasks add column pull_request jsonb;
alter table batch_tasks add column candidate jsonb;
-- The commit that is its end. Whoever looks for new candidates leaves those out that were tried.
alter table batch_tasks add column head text;
create index batch_tasks_head on batch_tasks (head) where head is not null;
-- What comes next; of one that was rejected, what rejected it. Empty when all is done.
alter table batch_tasks add column stage text;
-- Why it waits, and until when.
alter table batch_tasks add column deferral jsonb;
-- How often it has waited at this stage.
alter table batch_tasks add column deferrals integer not null default 0;
-- The instruction as a person has changed it.
alter table batch_tasks add column instruction text;
-- What a person should look at before approving it.
alter table batch_tasks add column concerns jsonb not null default '[]';
alter table batch_tasks add column spent_micros bigint not null default 0;
alter table batch_tasks add check (state <> 'making' or (stage is not null and candidate is not null));
alter table batch_tasks add check (deferral is null or state = 'making');

-- What a stage came to, by all that it depends on: the same again is not done again, in any batch of the workspace.
create table batch_stage_results (
  workspace_id uuid not null references workspaces on delete cascade,
  stage text not null,
  input_digest text not null,
  result jsonb not null,
  seconds real not null,
  created_at timestamptz(3) not null default now(),
  primary key (workspace_id, stage, input_digest)
);

-- The stages that a task has passed.
create table batch_task_stages (
  batch uuid not null,
  task text not null,
  stage text not null,
  workspace_id uuid not null,
  input_digest text not null,
  -- Another task had it before.
  is_reused boolean not null,
  passed_at timestamptz(3) not null default now(),
  primary key (batch, task, stage),
  foreign key (batch, task) references batch_tasks on delete cascade,
  foreign key (workspace_id, stage, input_digest) references batch_stage_results on delete cascade
);
create index batch_task_stages_result on batch_task_stages (workspace_id, stage, input_digest);
