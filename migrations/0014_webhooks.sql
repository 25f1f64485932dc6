-- Where a workspace is told of what happens. The address is sealed with its signing secret: such addresses often are one.
create table webhooks (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  -- Of the address what may be shown.
  origin text not null,
  description text not null,
  events text[] not null,
  -- Why nothing is sent there any more.
  disabled text check (disabled in ('asked', 'gone', 'failing')),
  -- Nothing has arrived since.
  failing_since timestamptz(3),
  -- Sealed as credentials are, with the same four facts bound in.
  kind text not null default 'webhook' check (kind = 'webhook'),
  provider text not null default 'receiver',
  version integer not null,
  master_key_id text not null references master_keys,
  wrapped_key bytea not null,
  ciphertext bytea not null,
  created_at timestamptz(3) not null default now()
);
create index webhooks_newest on webhooks (workspace_id, created_at desc, id desc);

-- One message to one webhook. Its id goes with it, the same at each attempt: who has seen it, has seen it.
create table webhook_deliveries (
  id uuid primary key,
  webhook uuid not null references webhooks on delete cascade,
  event text not null,
  -- To the byte what is signed and sent.
  body text not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempts integer not null default 0,
  -- Of the last attempt.
  attempted_at timestamptz(3),
  status smallint,
  error text,
  took_ms integer,
  next_at timestamptz(3),
  created_at timestamptz(3) not null default now()
);
create index webhook_deliveries_newest on webhook_deliveries (webhook, created_at desc, id desc);
create index webhook_deliveries_old on webhook_deliveries (created_at) where state <> 'pending';
