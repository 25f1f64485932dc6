import { Prices } from '../../catalog/model.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import type { GranteeRef } from '../sql.ts'
import * as rows from '../sql.ts'
import { type GrantTotals, sumCalls } from '../totals.ts'
import * as spendRows from './sql.ts'

export type { GranteeRef } from '../sql.ts'

/** Queries that other folders, which may not import sql.ts, use as they are. */
export const { listGranteeCalls, takeSpendMicros } = rows
export const { listDailySpend, readSpendMicrosSince, setSharedBudget } = spendRows

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
  const totals = await spendRows.listGranteeTotals(db, workspaceId, grantees)
  return new Map(totals.map((spend) => [spend.grantee, spend]))
}

/** Spend that has not been counted for this long is taken over from the job that should have counted it. */
const UNCOUNTED_SECONDS = 30
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
    await transact(db, (tx) => count(tx, grantee, () => rows.takeSpendMicros(tx, grantee)))
}

/** Prices of grants, with the first and the last time that a grant with them was opened. */
export type FrozenPrices = { catalogId: string; prices: Prices | null; from: Date; to: Date }

/** Lists the prices of all grants of these grantees, because the cost of a trial includes its retries. */
export async function listFrozenPrices(
  db: Db,
  workspaceId: string,
  grantees: readonly string[],
): Promise<FrozenPrices[]> {
  const priceRows = await spendRows.listFrozenPrices(db, workspaceId, grantees)
  return priceRows.map(({ prices, ...row }) => ({ ...row, prices: Prices.safeParse(prices).data ?? null }))
}
