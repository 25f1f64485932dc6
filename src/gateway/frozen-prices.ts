import { Prices } from '../catalog/prices.ts'
import type { Db } from '../platform/db/db.ts'
import * as rows from './spend/sql.ts'

/** Prices that grants were held to, with the first and the last time that one was opened. */
export type FrozenPrices = { catalogId: string; prices: Prices | null; from: Date; to: Date }

/** Prices of all grants of these subjects: the cost of a trial includes its retries. */
export async function listFrozenPrices(
  db: Db,
  workspaceId: string,
  subjects: readonly string[],
): Promise<FrozenPrices[]> {
  const found = await rows.listFrozenPrices(db, workspaceId, subjects)
  return found.map(({ prices, ...more }) => ({ ...more, prices: Prices.safeParse(prices).data ?? null }))
}
