import type { Prices } from '../../../catalog/model.ts'
import { findModel } from '../../../catalog/models.ts'
import { computeCostMicros } from '../../../gateway/price.ts'
import { NO_USAGE } from '../../../gateway/wire-protocol.ts'
import { type Db, lock, transact } from '../../../platform/db/db.ts'
import { toUsd } from '../../../platform/usd.ts'
import { estimateTrial } from '../../quote.ts'
import { startTrial, type TrialFacts } from '../sql.ts'
import { listForecastRows, listUsage, readLiveSpend } from './sql.ts'

export type TrialAdmission = { kind: 'start' } | { kind: 'wait'; waiting: number } | { kind: 'pause'; message: string }

/** Tokens of the shortest useful call. */
const SHORT_CALL = { ...NO_USAGE, input: 1000, output: 256 }

/**
 * Starts a waiting trial of a comparison with a budget if the budget covers its expected cost. Other trials need no
 * admission. Admissions of one comparison are serialized, so that two workers cannot both spend the same remainder.
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
  const readPrices = async (catalogId: string) =>
    (await findModel(tx, trial.workspaceId, catalogId, { alsoRemoved: true }))?.prices ?? null
  const settings: SettingForecast[] = []
  for (const row of rows) {
    const past = row.metered > 0 ? { micros: row.spentMicros, trials: row.metered } : usage.get(row.id)
    const isMeasured = row.provider === 'none' || past !== undefined
    const expectedMicros = past ? past.micros / past.trials : await guessCost(row, readPrices)
    settings.push({ running: row.running, expectedMicros: Math.round(expectedMicros), isMeasured })
  }
  const facts = {
    budgetMicros: trial.budgetMicros ?? 0,
    countedMicros: rows.reduce((sum, { spentMicros }) => sum + spentMicros, 0),
    liveMicros: await readLiveSpend(tx, trial.comparison),
    settings,
    setting: trial.setting,
    floorMicros: priceUsage(await readPrices(trial.catalogId), SHORT_CALL),
  }
  return { facts, waiting: rows.reduce((sum, { queued }) => sum + queued, 0) }
}

type PricedSetting = { provider: string; catalogId: string; reasoningLevel: string }

/** Estimates the cost of a trial with the usage that quotes assume for a task of medium difficulty. */
async function guessCost(
  row: PricedSetting,
  readPrices: (catalogId: string) => Promise<Prices | null>,
): Promise<number> {
  const prices = row.provider === 'none' ? null : await readPrices(row.catalogId)
  return prices ? estimateTrial(prices, row.reasoningLevel, { easy: 0, medium: 1, hard: 0 }).micros : 0
}

/** Prices usage. Models without a price count as 0: under a budget, the gateway refuses their calls. */
const priceUsage = (prices: Prices | null, usage: typeof SHORT_CALL): number =>
  prices ? (computeCostMicros(usage, prices) ?? 0) : 0

/** Expected spend of one setting of a comparison. */
type SettingForecast = {
  running: number
  /** Expected cost of one trial. */
  expectedMicros: number
  /** True if the expectation is the mean of finished trials, false if it is a guess from prices. */
  isMeasured: boolean
}

export type AdmissionFacts = {
  budgetMicros: number
  /** Spend of finished attempts. */
  countedMicros: number
  /** Spend of running attempts, including reservations. */
  liveMicros: number
  settings: readonly SettingForecast[]
  /** Position of the trial's setting. */
  setting: number
  /** Cost of one short call. With less, no trial can make progress. */
  floorMicros: number
}

/**
 * Decides whether a trial starts. It starts if its expected cost fits beside what the running trials are expected to
 * cost. `wait`: it may fit once they have ended. `pause`: it does not fit, and nothing is running. The cost of a setting
 * without finished trials is a guess; one trial of the setting starts to measure it if the rest of the budget covers a call.
 */
export function decideAdmission(facts: AdmissionFacts): 'start' | 'wait' | 'pause' {
  const { budgetMicros, countedMicros, liveMicros, settings, setting, floorMicros } = facts
  const forecast = settings[setting]
  const needMicros = forecast?.expectedMicros ?? 0
  const runningMicros = settings.reduce((sum, { running, expectedMicros }) => sum + running * expectedMicros, 0)
  const leftMicros = budgetMicros - countedMicros - liveMicros
  const isCovered = countedMicros + Math.max(liveMicros, runningMicros) + needMicros <= budgetMicros
  if (leftMicros > 0 && isCovered) return 'start'
  if (settings.some(({ running }) => running > 0)) return 'wait'
  const canMeasure = forecast?.isMeasured === false && leftMicros > 0 && leftMicros >= floorMicros
  return canMeasure ? 'start' : 'pause'
}

const formatUsd = (micros: number): string => `$${toUsd(micros)}`

/** Explains why no further trial starts. */
export function explainPause({ budgetMicros, countedMicros, liveMicros, settings, setting }: AdmissionFacts): string {
  const expected = settings[setting]?.expectedMicros ?? 0
  if (countedMicros + liveMicros >= budgetMicros)
    return `The budget of ${formatUsd(budgetMicros)} is used up. Resume with a larger budget.`
  return `The budget of ${formatUsd(budgetMicros)} does not cover another trial: ${formatUsd(countedMicros + liveMicros)} is spent, and the next trial is expected to cost ${formatUsd(expected)}. Resume with a larger budget.`
}

/** Explains why a running trial was stopped by the budget. */
export const explainCutOff = ({
  budgetMicros,
  spentMicros,
}: {
  budgetMicros: number | null
  spentMicros: number
}): string =>
  `A trial was cut off because the budget of ${formatUsd(budgetMicros ?? 0)} did not cover its next call: it is queued again and not scored, and the ${formatUsd(spentMicros)} that it spent counts. Resume with a larger budget.`
