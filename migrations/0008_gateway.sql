-- What somebody may ask of one model, until when and for how much. Its two secrets are here only as hashes.
create table gateway_grants (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  -- Whom it is for. Of one subject at most one is open.
  subject text not null,
  credential_id uuid not null,
  token_hash bytea not null,
  listener_hash bytea not null unique,
  -- The model, where it is, its level and its prices: what every call is held to, as it was when the grant was opened.
  terms jsonb not null,
  budget_micros bigint check (budget_micros >= 0),
  calls_max integer not null,
  calls integer not null default 0,
  -- Each call counts at its reservation until it is settled.
  spent_micros bigint not null default 0,
  -- What was asked and never sent on: how often, by reason, and the last.
  refusals jsonb not null default '{}',
  last_refusal text,
  refused_at timestamptz(3),
  created_at timestamptz(3) not null default now(),
  expires_at timestamptz(3) not null,
  closed_at timestamptz(3),
  -- Whoever it is for has counted what was spent.
  counted_at timestamptz(3)
) with (fillfactor = 70);
create unique index gateway_grants_subject on gateway_grants (workspace_id, subject) where closed_at is null;
create index gateway_grants_subjects on gateway_grants (workspace_id, subject);
create index gateway_grants_uncounted on gateway_grants (expires_at) where counted_at is null;

create table gateway_calls (
  id uuid primary key,
  grant_id uuid not null references gateway_grants on delete cascade,
  kind text not null check (kind in ('generate', 'count')),
  protocol text not null,
  -- The name that the program asked for, where it is another model's that was answered by the grant's own.
  helper text,
  -- What the program asked for, where the level is another than the grant's.
  level_asked jsonb,
  started_at timestamptz(3) not null default now(),
  settled_at timestamptz(3),
  outcome text not null default 'open' check (outcome in ('open', 'succeeded', 'failed', 'cut', 'lost')),
  reserved_micros bigint,
  -- Empty: nobody knows. Never zero instead.
  cost_micros bigint,
  cost_source text not null check (cost_source in ('metered', 'estimated', 'reserved', 'unknown')),
  input bigint not null default 0,
  cache_read bigint not null default 0,
  cache_write_5m bigint not null default 0,
  cache_write_1h bigint not null default 0,
  output bigint not null default 0,
  reasoning bigint not null default 0,
  -- The provider's last, after all tries.
  status smallint,
  failure text,
  tries smallint not null default 0,
  served_model text,
  service_tier text,
  -- The model declined to answer.
  is_refusal boolean not null default false,
  client_left boolean not null default false,
  first_byte_ms integer,
  total_ms integer,
  -- One blob with what was said, where the grant wants it kept.
  bodies text
) with (fillfactor = 70);
create index gateway_calls_grant on gateway_calls (grant_id, started_at);
create index gateway_calls_kept on gateway_calls (settled_at) where bodies is not null;
