create table workspaces (
  id uuid primary key,
  login text not null,
  name text not null,
  kind text not null check (kind in ('org', 'user')),
  created_at timestamptz(3) not null default now()
);
-- Logins compare without case and keep the casing they were given.
create unique index workspaces_login on workspaces (lower(login));

create table api_keys (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  name text not null,
  permission text not null check (permission in ('read', 'write', 'admin')),
  hash bytea not null unique,
  last4 text not null,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3),
  last_used_at timestamptz(3)
);
create index api_keys_newest on api_keys (workspace_id, created_at desc, id desc);

create table sessions (
  hash bytea primary key,
  key_id uuid not null references api_keys on delete cascade,
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null
);
create index sessions_by_key on sessions (key_id);
create index sessions_by_expiry on sessions (expires_at);

-- Append only. Each row's hash covers the one before it, so a changed or missing row shows.
create table audit_events (
  workspace_id uuid not null references workspaces on delete cascade,
  sequence bigint not null,
  at timestamptz(3) not null,
  actor text not null,
  action text not null,
  subject text not null,
  detail jsonb not null,
  request_id text,
  hash bytea not null,
  primary key (workspace_id, sequence)
);

create table idempotency_keys (
  scope text not null,
  key text not null,
  request_hash bytea not null,
  -- Null when the answer showed a secret: such an answer is never stored.
  status smallint,
  body text,
  created_at timestamptz(3) not null default now(),
  primary key (scope, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);
