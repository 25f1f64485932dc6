import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import type { Terms } from '../ledger.ts'
import type { GranteeRef } from '../sql.ts'

/** Creates a shared budget or changes its limit; null removes the limit. Earlier spend stays counted. */
export async function setSharedBudget(
  db: Db,
  budget: { id: string; workspaceId: string; budgetMicros: number | null },
) {
  await db
    .insertInto('gateway_budgets')
    .values({ id: budget.id, workspace_id: budget.workspaceId, budget_micros: budget.budgetMicros })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ budget_micros: budget.budgetMicros }))
    .execute()
}

/** Returns the spend of a grantee in grants opened since a time, counted or not. */
export async function readSpendMicrosSince(db: Db, { workspaceId, grantee }: GranteeRef, since: Date): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    select coalesce(sum(spent_micros), 0)::bigint as spent from gateway_grants
    where workspace_id = ${workspaceId} and subject = ${grantee} and created_at >= ${since}`.execute(db)
  return rows[0]?.spent ?? 0
}

type DailySpendRow = { day: string; provider: string; micros: number }

/** Sums settled costs of grants by provider and by the UTC day on which they were opened. */
export async function listDailySpend(db: Db, workspaceId: string, since: Date): Promise<DailySpendRow[]> {
  const { rows } = await sql<DailySpendRow>`
    select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') as day, terms->>'provider' as provider,
      sum(spent_micros - pending_micros)::bigint as micros
    from gateway_grants where workspace_id = ${workspaceId} and created_at >= ${since}
    group by 1, 2 having sum(spent_micros - pending_micros) > 0 order by 1, 2`.execute(db)
  return rows
}

/** Lists grantees whose closed or expired grants have not been counted for this long. */
export async function listUncounted(db: Db, seconds: number, limit: number): Promise<GranteeRef[]> {
  const { rows } = await sql<GranteeRef>`
    select distinct workspace_id as "workspaceId", subject as grantee from gateway_grants
    where counted_at is null and least(closed_at, expires_at) < now() - make_interval(secs => ${seconds})
    limit ${limit}`.execute(db)
  return rows
}

/** `earlierMicros`: the part of the settled spend that was spent before the last grant. */
export type GranteeTotalsRow = { grantee: string; settledMicros: number; pendingMicros: number; earlierMicros: number }

export async function listGranteeTotals(db: Db, workspaceId: string, grantees: readonly string[]) {
  const { rows } = await sql<GranteeTotalsRow>`
    select subject as grantee, sum(spent_micros - pending_micros)::bigint as "settledMicros",
      sum(pending_micros)::bigint as "pendingMicros",
      coalesce(sum(spent_micros - pending_micros) filter (where recency > 1), 0)::bigint as "earlierMicros"
    from (
      select subject, spent_micros, pending_micros, row_number() over (partition by subject order by created_at desc, id desc) as recency
      from gateway_grants where workspace_id = ${workspaceId} and subject = any(${grantees}::text[])
    ) as grants
    group by subject`.execute(db)
  return rows
}

type FrozenPricesRow = { catalogId: string; prices: Terms['prices']; from: Date; to: Date }

export async function listFrozenPrices(
  db: Db,
  workspaceId: string,
  grantees: readonly string[],
): Promise<FrozenPricesRow[]> {
  const { rows } = await sql<FrozenPricesRow>`
    select terms->>'catalogId' as "catalogId", terms->'prices' as prices, min(created_at) as from, max(created_at) as to
    from gateway_grants where workspace_id = ${workspaceId} and subject = any(${grantees}::text[])
    group by 1, 2 order by 1, 3`.execute(db)
  return rows
}
