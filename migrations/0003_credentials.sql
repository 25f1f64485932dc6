-- Which master key seals new secrets. The key itself is never here; the check value proves that a process holds it.
create table master_keys (
  id text primary key,
  check_value bytea not null,
  active boolean not null,
  created_at timestamptz(3) not null default now()
);
create unique index master_keys_active on master_keys (active) where active;

create table credentials (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  kind text not null check (kind in ('model', 'sandbox', 'registry', 'code-host')),
  provider text not null,
  name text not null,
  hint text not null,
  -- The data key that encrypts this secret, itself encrypted by the master key named here.
  master_key_id text not null references master_keys,
  wrapped_key bytea not null,
  ciphertext bytea not null,
  -- Raised with each new secret and bound into both ciphertexts.
  version integer not null,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),
  last_used_at timestamptz(3)
);
create index credentials_newest on credentials (workspace_id, created_at desc, id desc);
