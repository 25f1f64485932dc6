import { findModel } from '../../../catalog/models.ts'
import type { Prices } from '../../../catalog/prices.ts'
import { costMicros } from '../../../gateway/price.ts'
import { NO_USAGE } from '../../../gateway/wire-protocol.ts'
import { type Db, lock, transact } from '../../../platform/db/db.ts'
import { estimateTrial } from '../../trial-prior.ts'
import { startTrial, type TrialFacts } from '../sql.ts'
import { type AdmissionFacts, decideAdmission, explainPause, type SettingForecast } from './admission.ts'
import { listForecastRows, listUsage, readLiveSpend } from './sql.ts'

export type TrialAdmission = { kind: 'start' } | { kind: 'wait'; waiting: number } | { kind: 'pause'; message: string }

/** Tokens of the shortest useful call. */
const SHORT_CALL = { ...NO_USAGE, input: 1000, output: 256 }

/**
 * Starts a waiting trial of a comparison with a budget if the budget covers its expected cost; other trials have already
 * started. Admissions of one comparison are serialized, so that two workers cannot both spend the same remainder.
 */
export async function admitTrial(db: Db, trial: TrialFacts): Promise<TrialAdmission> {
  if (trial.budgetMicros === null || trial.state !== 'queued') return { kind: 'start' }
  return transact(db, async (tx) => {
    await lock(tx, `admission ${trial.comparison}`)
    const { facts, waiting } = await readAdmission(tx, trial)
    const decision = decideAdmission(facts)
    if (decision === 'wait') return { kind: 'wait', waiting }
    if (decision === 'pause') return { kind: 'pause', message: explainPause(facts) }
    const started = await startTrial(tx, trial, { isAdmitted: true })
    return started?.comparisonState === 'running' ? { kind: 'start' } : { kind: 'wait', waiting }
  })
}

async function readAdmission(tx: Db, trial: TrialFacts): Promise<{ facts: AdmissionFacts; waiting: number }> {
  const rows = await listForecastRows(tx, trial.comparison)
  const ids = rows.map(({ id }) => id)
  const usage = new Map((await listUsage(tx, trial.workspaceId, ids)).map((used) => [used.id, used]))
  const prices = async (catalogId: string) =>
    (await findModel(tx, trial.workspaceId, catalogId, { alsoRemoved: true }))?.prices ?? null
  const settings: SettingForecast[] = []
  for (const row of rows) {
    const past = row.metered > 0 ? { micros: row.spentMicros, trials: row.metered } : usage.get(row.id)
    const isMeasured = row.provider === 'none' || past !== undefined
    const expectedMicros = past ? past.micros / past.trials : await guessCost(row, prices)
    settings.push({ running: row.running, expectedMicros: Math.round(expectedMicros), isMeasured })
  }
  const facts = {
    budgetMicros: trial.budgetMicros ?? 0,
    countedMicros: rows.reduce((sum, { spentMicros }) => sum + spentMicros, 0),
    liveMicros: await readLiveSpend(tx, trial.comparison),
    settings,
    setting: trial.setting,
    floorMicros: priceUsage(await prices(trial.catalogId), SHORT_CALL),
  }
  return { facts, waiting: rows.reduce((sum, { queued }) => sum + queued, 0) }
}

type Priced = { provider: string; catalogId: string; reasoningLevel: string }

/** Assumes the usage that quotes assume for a task of medium difficulty. */
async function guessCost(row: Priced, readPrices: (catalogId: string) => Promise<Prices | null>): Promise<number> {
  const prices = row.provider === 'none' ? null : await readPrices(row.catalogId)
  return prices ? estimateTrial(prices, row.reasoningLevel, { easy: 0, medium: 1, hard: 0 }).micros : 0
}

/** Prices usage. Models without a price count as 0: under a budget, the gateway refuses their calls. */
const priceUsage = (prices: Prices | null, usage: typeof SHORT_CALL): number =>
  (prices && costMicros(usage, prices)) ?? 0
