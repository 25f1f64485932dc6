-- When the code host was last asked whether a repository is public. Null: never since it was connected.
alter table repositories add column visibility_checked_at timestamptz(3);

-- Running processes and the master keys that each of them can read, so that a rotation never locks one out unnoticed.
create table key_holders (
  id uuid primary key,
  host text not null,
  process_id integer not null,
  master_key_ids text[] not null,
  seen_at timestamptz(3) not null default now()
);

-- Ids that workspaces see must not tell how busy other workspaces are. Trial ids contain the key of their comparison.
-- 48 random bits, which is what a trial id has room for.
alter table comparisons alter column key drop identity;
alter table comparisons alter column key
  set default ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint;

-- Plain git repositories have random ids from 2^40 on instead of a shared sequence. Older ones keep theirs.
drop sequence git_repository_ids;
create unique index repositories_git_id on repositories (id) where source_kind = 'git';
