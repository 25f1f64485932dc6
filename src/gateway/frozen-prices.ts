import { Prices } from '../catalog/prices.ts'
import type { Db } from '../platform/db/db.ts'
import * as rows from './sql.ts'

/** Prices that grants were held to, with the first and the last time that one was opened. */
export type FrozenPrices = { catalogId: string; prices: Prices | null; from: Date; to: Date }

/** Of the last grant of each subject: what it had before was given up, and is not in its cost. */
export async function listFrozenPrices(
  db: Db,
  workspaceId: string,
  subjects: readonly string[],
): Promise<FrozenPrices[]> {
  const found = await rows.listFrozenPrices(db, workspaceId, subjects)
  return found.map(({ prices, ...more }) => ({ ...more, prices: Prices.safeParse(prices).data ?? null }))
}
