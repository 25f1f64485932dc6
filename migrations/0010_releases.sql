-- The operator has made sure that the workspace belongs to whom its login names.
alter table workspaces add column verified_at timestamptz(3);

-- What a workspace has published of a repository. Nothing in a row changes but its withdrawal, and the name by which
-- the repository is found.
create table releases (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  repository bigint not null references repositories on delete cascade,
  -- The newest of a repository is its head, unless it was withdrawn: then there is none.
  sequence integer not null,
  -- Which repository it is for everybody: the same code in two workspaces has two rows there and one name here.
  source_kind text not null,
  host text not null,
  repository_id bigint not null,
  owner text not null,
  name text not null,
  released_at timestamptz(3) not null,
  fingerprint text not null,
  content_hash text not null,
  -- Picks with their roles, by setting.
  picks jsonb not null,
  -- As everybody reads it, to the byte.
  document text not null,
  withdrawn_at timestamptz(3),
  withdrawn_reason text,
  unique (repository, sequence),
  check ((withdrawn_at is null) = (withdrawn_reason is null))
);
create index releases_named on releases (lower(owner), lower(name), released_at desc, id desc);
create index releases_same on releases (source_kind, host, repository_id);

-- Tasks whose files are public. They stay, also when a later release leaves them out; a withdrawal takes them away.
create table public_tasks (
  repository bigint not null references repositories on delete cascade,
  id text not null,
  digest text not null references task_contents,
  title text not null,
  difficulty text,
  published_at timestamptz(3) not null default now(),
  primary key (repository, id),
  unique (repository, digest)
);
create index public_tasks_content on public_tasks (digest);

-- The owner of a repository stands for what another workspace publishes of it.
create table endorsements (
  owner_workspace uuid not null references workspaces on delete cascade,
  name text not null,
  publisher uuid not null references workspaces on delete cascade,
  at timestamptz(3) not null default now(),
  primary key (owner_workspace, name, publisher)
);

-- What everybody reads, ready to be sent: one row for each repository and publisher that has a release to show. It is
-- written with every change of what it is made of, in the same transaction.
create table result_lines (
  repository bigint primary key references repositories on delete cascade,
  name_key text not null,
  release_id uuid not null,
  released_at timestamptz(3) not null,
  publisher text not null,
  is_default boolean not null,
  search text not null,
  card text not null,
  line text not null
);
create index result_lines_newest on result_lines (released_at desc, release_id desc);
create index result_lines_named on result_lines (name_key);
