-- Size of a configuration's content, for the quota of its workspace.
alter table configurations add column bytes bigint not null default 0;
update configurations set bytes = (
  select coalesce(sum((file ->> 'bytes')::bigint), 0) from jsonb_array_elements(files) as file
);

-- Every blob with files of a trial, for the quota of its workspace. A blob to which the trial does not refer is deleted
-- after a day: files of attempts that were repeated or canceled.
create table trial_files (
  blob text primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  comparison bigint not null,
  ordinal integer not null,
  bytes bigint not null,
  stored_at timestamptz(3) not null default now()
);
create index trial_files_oldest on trial_files (stored_at);

-- Sum of their bytes. A trial reads it when it ends, and a workspace may have millions of trials.
create table trial_file_totals (
  workspace_id uuid primary key references workspaces on delete cascade,
  bytes bigint not null
);

insert into trial_files (blob, workspace_id, comparison, ordinal, bytes, stored_at)
select stored.artifacts, workspace_id, comparison, ordinal,
  (select coalesce(sum((artifact ->> 'bytes')::bigint), 0) from jsonb_array_elements(detail -> 'artifacts') as artifact),
  coalesce(at, now())
from (
  select artifacts, comparison, ordinal, detail, finished_at as at from trials where artifacts is not null
  union all
  select artifacts, comparison, ordinal, detail, at from trial_attempts where artifacts is not null
) as stored
join comparisons on key = comparison
on conflict do nothing;

insert into trial_file_totals (workspace_id, bytes)
select workspace_id, sum(bytes) from trial_files group by workspace_id;
