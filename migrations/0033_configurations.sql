-- Named, versioned agent configurations of a workspace. A version never changes; its content is a blob.
create table configurations (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  name text not null,
  version integer not null,
  -- SHA-256 of the canonical content, which is also the name of the blob.
  digest text not null,
  -- Paths and sizes of the files, for lists.
  files jsonb not null,
  created_at timestamptz(3) not null default now(),
  unique (workspace_id, name, version),
  unique (workspace_id, name, digest)
);
create index configurations_newest on configurations (workspace_id, created_at desc, id desc);

-- The configuration of a setting. Null for a setting without one.
alter table comparison_settings
  add column configuration text,
  add column configuration_version integer,
  add column configuration_digest text;
