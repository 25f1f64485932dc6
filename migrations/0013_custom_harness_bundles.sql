-- Gateways that live say so every few seconds. A call whose gateway fell silent was lost with it, which is nobody's doing
-- in the sandbox; one that is open while its gateway lives is still under way.
create table gateways (
  id uuid primary key,
  seen_at timestamptz(3) not null default now()
);
alter table gateway_calls add column gateway_id uuid;

-- Programs of custom harnesses, as a workspace has sent them. One that no version of a harness names goes after a day.
create table harness_bundles (
  workspace_id uuid not null references workspaces on delete cascade,
  -- Of the archive as it was sent.
  digest text not null,
  -- Under which it is kept.
  blob text not null,
  bytes bigint not null,
  files integer not null,
  unpacked_bytes bigint not null,
  created_at timestamptz(3) not null default now(),
  used_at timestamptz(3) not null default now(),
  primary key (workspace_id, digest)
);

-- What a workspace asks of the gateway. Without a row: nothing is kept of what is said.
create table gateway_settings (
  workspace_id uuid primary key references workspaces on delete cascade,
  record_bodies boolean not null
);
