import { findPricesAt, type Prices } from '../src/catalog/model.ts'
import type { SnapshotModel } from '../src/catalog/models.ts'

/** Changes as lines of text. `surprises` are changes that look like mistakes. */
export type CatalogChanges = { lines: string[]; surprises: string[] }

/** Compares the models of two snapshots. */
export function compareSnapshots(
  before: readonly SnapshotModel[],
  after: readonly SnapshotModel[],
  today: Date,
): CatalogChanges {
  const lines: string[] = []
  const surprises: string[] = []
  for (const old of before) {
    const current = after.find(({ catalogId }) => catalogId === old.catalogId)
    if (!current) surprises.push(`${old.catalogId} was removed.`)
    else {
      lines.push(...listDifferences(old, current))
      surprises.push(...listPriceJumps(old, current, today))
    }
  }
  const addedModels = after.filter(({ catalogId }) => !before.some((old) => old.catalogId === catalogId))
  lines.push(...addedModels.map(({ catalogId }) => `+ ${catalogId}`))
  return { lines, surprises }
}

function listDifferences(old: SnapshotModel, current: SnapshotModel): string[] {
  const oldFields = new Map<string, unknown>(Object.entries(old))
  return Object.entries(current).flatMap(([field, value]) => {
    const [oldJson, json] = [JSON.stringify(oldFields.get(field)), JSON.stringify(value)]
    return oldJson === json ? [] : [`~ ${current.catalogId} ${field}: ${oldJson} → ${json}`]
  })
}

/** A price that changes by this factor or more is probably a misplaced decimal point. */
const JUMP_FACTOR = 10

function listPriceJumps(old: SnapshotModel, current: SnapshotModel, today: Date): string[] {
  const [oldPrices, prices] = [findPricesAt(old.prices, today), findPricesAt(current.prices, today)]
  if (!oldPrices || !prices) return []
  const rates: (keyof Prices)[] = ['input', 'output', 'cacheRead', 'cacheWrite5m', 'cacheWrite1h']
  return rates.flatMap((rate) => {
    const [from, to] = [oldPrices[rate], prices[rate]]
    if (typeof from !== 'number' || typeof to !== 'number' || from === to) return []
    const isJump = from === 0 || to === 0 || to / from >= JUMP_FACTOR || from / to >= JUMP_FACTOR
    return isJump ? [`${current.catalogId}: ${rate} goes from ${from} to ${to}.`] : []
  })
}
