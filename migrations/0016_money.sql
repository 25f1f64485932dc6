-- A budget that several grants share, such as the budget of a comparison. Reserving a call and charging the shared
-- budget is one statement, so that spent_micros never exceeds budget_micros, however many gateways there are.
create table gateway_budgets (
  id text primary key,
  workspace_id uuid not null references workspaces on delete cascade,
  -- Null: no limit.
  budget_micros bigint check (budget_micros >= 0),
  -- Settled costs plus the reservations of open calls, and the second part by itself.
  spent_micros bigint not null default 0,
  pending_micros bigint not null default 0
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

alter table gateway_grants
  add column shared_budget text references gateway_budgets,
  -- The part of spent_micros that is reserved for open calls.
  add column pending_micros bigint not null default 0,
  -- The part of spent_micros that the grantee has counted so far. counted_at is set once nothing is left to count.
  add column counted_micros bigint not null default 0;

alter table gateway_calls
  -- The output limit that the gateway wrote into the request because a budget did not cover more, and which budget.
  add column output_limit integer,
  add column limited_by text check (limited_by in ('budget', 'shared_budget'));

update gateway_grants set pending_micros = open.micros
from (
  select grant_id, sum(coalesce(reserved_micros, 0)) as micros from gateway_calls where settled_at is null group by grant_id
) as open
where open.grant_id = gateway_grants.id;
update gateway_grants set counted_micros = spent_micros where counted_at is not null;

insert into gateway_budgets (id, workspace_id, budget_micros, spent_micros)
select 'comparison ' || key, workspace_id, budget_micros, coalesce(
  (select sum(spent_micros) from trial_counts where comparison = key), 0)
from comparisons;

-- The id of a trial begins with the key of its comparison: twelve hexadecimal digits.
with live as (
  select gateway_grants.id, 'comparison ' || ('x0000' || substr(subject, 7, 8) || substr(subject, 16, 4))::bit(64)::bigint
    as budget
  from gateway_grants
  where counted_at is null and subject ~ '^trial [0-9a-f]{8}-[0-9a-f]{4}-8000-8000-[0-9a-f]{12}$'
)
update gateway_grants set shared_budget = live.budget
from live join gateway_budgets on gateway_budgets.id = live.budget where gateway_grants.id = live.id;

update gateway_budgets set spent_micros = gateway_budgets.spent_micros + live.spent, pending_micros = live.pending
from (
  select shared_budget, sum(spent_micros) as spent, sum(pending_micros) as pending
  from gateway_grants where shared_budget is not null group by shared_budget
) as live
where live.shared_budget = gateway_budgets.id;

create index gateway_grants_live on gateway_grants (shared_budget) where counted_at is null;
