-- Models that a workspace has added itself. One that was removed keeps its row: its name is never given again, and
-- what was compared with it can still be resumed.
create table custom_models (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  slug text not null,
  name text not null,
  label text not null,
  protocol text not null check (protocol in ('anthropic-messages', 'openai-chat', 'openai-responses', 'gemini')),
  base_url text not null,
  reasoning_levels text[] not null,
  default_level text not null,
  context_tokens integer not null,
  output_tokens integer not null,
  created_at timestamptz(3) not null default now(),
  removed_at timestamptz(3),
  unique (workspace_id, slug)
);
create index custom_models_newest on custom_models (workspace_id, created_at desc, id desc);

-- A new price is a new row. Numbers are kept as they were written.
create table custom_model_prices (
  model uuid not null references custom_models on delete cascade,
  version integer not null,
  prices jsonb not null,
  valid_from timestamptz(3) not null default now(),
  primary key (model, version)
);

-- Harnesses that a workspace has described. A version never changes, and is kept when the harness is removed: what was
-- compared with it can still be resumed, and its name is never given again.
create table custom_harnesses (
  id uuid primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  slug text not null,
  version text not null,
  description jsonb not null,
  created_at timestamptz(3) not null default now(),
  removed_at timestamptz(3),
  unique (workspace_id, slug, version)
);
create index custom_harnesses_newest on custom_harnesses (workspace_id, created_at desc, id desc);
