import { Prices } from '../../catalog/model.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import type { RecordedCall } from '../ledger.ts'
import type { GranteeRef } from '../sql.ts'
import * as rows from '../sql.ts'
import { type GrantTotals, sumCalls } from '../totals.ts'
import * as spendRows from './sql.ts'

export type { GranteeRef } from '../sql.ts'

/** Creates a shared budget or changes its limit; null removes the limit. Earlier spend stays counted. */
export const setSharedBudget = (tx: Db, budget: SharedBudget): Promise<void> => rows.upsertBudget(tx, budget)

export type SharedBudget = { id: string; workspaceId: string; budgetMicros: number | null }

/**
 * Returns the spend of a grantee in closed grants since the last call. Called in the transaction that stores the spend,
 * so that it is counted once. Open calls are excluded until they are settled.
 */
export const takeSpend = (tx: Db, grantee: GranteeRef): Promise<number> => rows.takeSpend(tx, grantee)

/** Cost and usage of all settled calls of all grants of a grantee. */
export type GranteeSpend = Pick<GrantTotals, 'usage' | 'costMicros' | 'costSource'>

export async function readGranteeSpend(db: Db, grantee: GranteeRef): Promise<GranteeSpend> {
  const { usage, costMicros, costSource } = sumCalls(await rows.listSettledCalls(db, grantee))
  return { usage, costMicros, costSource }
}

export type GranteeTotals = spendRows.GranteeTotalsRow

/** Returns the current spend by grantee. Grantees without a grant are omitted. */
export async function readGranteeTotals(
  db: Db,
  workspaceId: string,
  grantees: readonly string[],
): Promise<Map<string, GranteeTotals>> {
  const found = await spendRows.listGranteeTotals(db, workspaceId, grantees)
  return new Map(found.map((spend) => [spend.grantee, spend]))
}

/** Returns the spend of a grantee in grants opened since a time, counted or not. */
export const readSpendSince = (db: Db, grantee: GranteeRef, since: Date): Promise<number> =>
  spendRows.readSpendSince(db, grantee, since)

/** Sums the settled costs of a workspace by day and provider since a time, oldest first. */
export const listDailySpend = (db: Db, workspaceId: string, since: Date): Promise<spendRows.DailySpendRow[]> =>
  spendRows.listDailySpend(db, workspaceId, since)

/** Spend that has not been counted for this long is taken over from the job that should have counted it. */
const UNCOUNTED_SECONDS = 120
const GRANTEES_MAX = 500

/**
 * Counts spend that no job has counted, for example because a worker died. `count` must store the spend that `take`
 * returns in the same transaction.
 */
export async function countUncountedSpend(
  db: Db,
  count: (tx: Db, grantee: GranteeRef, take: () => Promise<number>) => Promise<void>,
): Promise<void> {
  for (const grantee of await spendRows.listUncounted(db, UNCOUNTED_SECONDS, GRANTEES_MAX))
    await transact(db, (tx) => count(tx, grantee, () => rows.takeSpend(tx, grantee)))
}

/** Lists the calls of a grantee, oldest first. */
export const listGranteeCalls = (
  db: Db,
  grantee: GranteeRef,
  page: { limit: number; after?: string | undefined },
): Promise<RecordedCall[]> => rows.listGranteeCalls(db, grantee, page)

/** Prices of grants, with the first and the last time that a grant with them was opened. */
export type FrozenPrices = { catalogId: string; prices: Prices | null; from: Date; to: Date }

/** Lists the prices of all grants of these grantees, because the cost of a trial includes its retries. */
export async function listFrozenPrices(
  db: Db,
  workspaceId: string,
  grantees: readonly string[],
): Promise<FrozenPrices[]> {
  const found = await spendRows.listFrozenPrices(db, workspaceId, grantees)
  return found.map(({ prices, ...row }) => ({ ...row, prices: Prices.safeParse(prices).data ?? null }))
}
