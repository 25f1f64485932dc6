import { findPricesAt, type Prices } from '../src/catalog/model.ts'
import type { SnapshotModel } from '../src/catalog/models.ts'

/** Changes as lines of text, and those that look like mistakes. */
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
    const now = after.find(({ catalogId }) => catalogId === old.catalogId)
    if (!now) surprises.push(`${old.catalogId} is gone.`)
    else {
      lines.push(...listDifferences(old, now))
      surprises.push(...listPriceJumps(old, now, today))
    }
  }
  const fresh = after.filter(({ catalogId }) => !before.some((old) => old.catalogId === catalogId))
  lines.push(...fresh.map(({ catalogId }) => `+ ${catalogId}`))
  return { lines, surprises }
}

function listDifferences(old: SnapshotModel, now: SnapshotModel): string[] {
  const before = new Map<string, unknown>(Object.entries(old))
  return Object.entries(now).flatMap(([field, value]) => {
    const [was, is] = [JSON.stringify(before.get(field)), JSON.stringify(value)]
    return was === is ? [] : [`~ ${now.catalogId} ${field}: ${was} → ${is}`]
  })
}

/** A price change by this factor is more likely a misplaced decimal point. */
const JUMP = 10

function listPriceJumps(old: SnapshotModel, now: SnapshotModel, today: Date): string[] {
  const [was, is] = [findPricesAt(old.prices, today), findPricesAt(now.prices, today)]
  if (!was || !is) return []
  const rates: (keyof Prices)[] = ['input', 'output', 'cacheRead', 'cacheWrite5m', 'cacheWrite1h']
  return rates.flatMap((rate) => {
    const [from, to] = [was[rate], is[rate]]
    if (typeof from !== 'number' || typeof to !== 'number' || from === to) return []
    const isJump = from === 0 || to === 0 || to / from >= JUMP || from / to >= JUMP
    return isJump ? [`${now.catalogId}: ${rate} goes from ${from} to ${to}.`] : []
  })
}
