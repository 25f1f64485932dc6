import type { HolderSpend } from '../../gateway/spend/spend.ts'
import type { GrantTotals } from '../../gateway/totals.ts'
import type { Db } from '../../platform/db/db.ts'
import { storableText } from '../../platform/db/storable.ts'
import type { TrialRecord } from '../../trials/record.ts'
import { type CellTrial, type Counts, cellChange } from '../counts.ts'
import { cellOf } from '../plan.ts'
import type { Pause, TrialClass, TrialState } from '../shapes/schema.ts'
import { goesOn, noteIsolation, pause } from '../state.ts'
import type { OnStep } from '../steps.ts'
import type { KeptArtifact } from './artifacts.ts'
import { shownUsage } from './calls.ts'
import { enqueueTrial } from './enqueue/enqueue.ts'
import { readTrialSpend, takeSpendOf } from './spend.ts'
import { findState, insertSpoiled, lockTrials, storeEnd, type TrialEnd, type TrialFacts } from './sql.ts'

/** How one attempt of a trial came to its end. */
export type Ending =
  | { kind: 'ran'; record: Ran; spent: Spent | null; artifacts: KeptArtifact[]; blob: string | null }
  /** The infrastructure broke. */
  | { kind: 'broken'; class: TrialClass; error: string }
  /** No attempt would mean anything. */
  | { kind: 'unfit'; error: string }
  /** Nothing is wrong with the trial: the comparison has to wait. */
  | { kind: 'stopped'; reason: Pause['reason']; message: string }

/** As the trial ended, once the gateway was asked how its model fared. */
export type Ran = Omit<TrialRecord, 'class'> & { class: TrialClass }

/** What this attempt was given by its model. Null: it asked none. */
type Spent = Pick<GrantTotals, 'modelsServed' | 'levelMismatches' | 'helperCalls'>

const RETRIES_MAX = 2

/** Whether a trial that the infrastructure spoils is tried once more. */
export const hasRetries = ({ retries }: Pick<TrialFacts, 'retries'>): boolean => retries < RETRIES_MAX
/** A fresh sandbox may mend these. */
const RETRIED: readonly string[] = ['provider_error', 'sandbox_error', 'verifier_error']

/** The trial was canceled or put back meanwhile: what this attempt found does not count. */
export class Superseded extends Error {
  override name = 'Superseded'
}

type Settling = { retryMs: number; step?: OnStep }

/**
 * Writes the end of an attempt: the trial, what it counts, and whether it waits again. Answers how many trials that
 * are counted with it have not ended. Locks as everybody does: the comparison before its trials, those before counts.
 */
export async function settle(
  tx: Db,
  trial: TrialFacts,
  ending: Ending,
  { retryMs, step = () => {} }: Settling,
): Promise<number> {
  const spentMicros = await takeSpendOf(tx, trial)
  const end = endOf(trial, ending, await readTrialSpend(tx, trial))
  if (ending.kind === 'stopped') await pause(tx, trial.comparison, ending.reason, storableText(ending.message))
  const isAgain = end.state === 'queued' && (await goesOn(tx, trial.comparison))
  const before = trial.attempts === 1 ? [alone(trial)] : await cellTrials(tx, trial)
  const after = before.map((each) => (each.attempt === trial.attempt ? { ...each, ...end } : each))
  const open = await storeEnd(tx, trial, end, changesOf(end.state, cellChange(before, after), spentMicros))
  if (open === undefined) throw new Superseded()
  step('trial.stored')
  if (ending.kind !== 'stopped' && end.state === 'queued') await keepSpoiled(tx, trial, ending)
  if (isAgain) await enqueueTrial(tx, queueOf(trial), trial.ordinal, new Date(Date.now() + retryMs))
  if (ending.kind === 'ran' && isolationOf(ending.record) !== trial.isolation)
    await noteIsolation(tx, trial.comparison, trial.setting, isolationOf(ending.record))
  return open
}

/** The only attempt of its task: there is nothing to look at. */
const alone = ({ attempt }: TrialFacts): CellTrial => ({ attempt, state: 'running', costMicros: null, voided: false })

async function cellTrials(tx: Db, trial: TrialFacts): Promise<CellTrial[]> {
  const rows = await lockTrials(tx, trial.comparison, cellOf(trial, trial))
  return rows.map((row) => ({
    ...{ attempt: row.attempt, state: row.state, costMicros: row.cost_micros, voided: row.voided_at !== null },
  }))
}

/** A job that ends while its trial waits, in a comparison that goes on, has a successor. */
export async function rejoin(tx: Db, trial: TrialFacts): Promise<void> {
  const goes = await goesOn(tx, trial.comparison)
  if (goes && (await findState(tx, trial)) === 'queued') await enqueueTrial(tx, queueOf(trial), trial.ordinal)
}

const queueOf = (trial: TrialFacts) => ({ ...trial, key: trial.comparison })

const changesOf = (state: TrialState, change: Partial<Counts>, spentMicros: number): Partial<Counts> => ({
  ...change,
  running: -1,
  [state]: 1,
  spent_micros: spentMicros,
  metered: state === 'queued' ? 0 : 1,
  spent_squares: spentMicros ** 2,
})

async function keepSpoiled(tx: Db, trial: TrialFacts, ending: Exclude<Ending, { kind: 'stopped' }>): Promise<void> {
  const { error, class: spoiledClass } = troubleOf(ending)
  await insertSpoiled(tx, {
    ...{ comparison: trial.comparison, ordinal: trial.ordinal, number: trial.retries + 1 },
    ...{ class: spoiledClass, error: error ?? 'It broke without a word.' },
    detail: ending.kind === 'ran' ? { timings: ending.record.timings, artifacts: ending.artifacts } : {},
    artifacts: ending.kind === 'ran' ? ending.blob : null,
  })
}

function troubleOf(ending: Exclude<Ending, { kind: 'stopped' }>): { class: TrialClass; error: string | null } {
  if (ending.kind === 'ran') return ending.record
  return ending.kind === 'unfit' ? { class: 'verifier_error', error: ending.error } : ending
}

const NOTHING = { class: null, verifyMode: null, reward: null, costMicros: null, detail: null, artifacts: null }

/** `spend`: of all attempts of the trial. */
function endOf(trial: TrialFacts, ending: Ending, spend: HolderSpend | undefined): TrialEnd {
  if (ending.kind === 'stopped') return { ...NOTHING, state: 'queued', retries: trial.retries }
  const trouble = troubleOf(ending)
  const mayRetry = ending.kind !== 'unfit' && RETRIED.includes(trouble.class) && hasRetries(trial)
  if (mayRetry) return { ...NOTHING, state: 'queued', retries: trial.retries + 1 }
  if (ending.kind === 'ran') return endOfRecord(trial, ending, spend)
  const detail = { error: trouble.error, ...spendDetail(spend) }
  const costMicros = spend ? spend.costMicros : 0
  return { ...NOTHING, state: 'errored', class: trouble.class, retries: trial.retries, detail, costMicros }
}

const spendDetail = (spend: HolderSpend | undefined) =>
  spend ? { usage: shownUsage(spend.usage), costSource: spend.costSource } : {}

type RanEnding = Extract<Ending, { kind: 'ran' }>

function endOfRecord(trial: TrialFacts, ending: RanEnding, spend: HolderSpend | undefined): TrialEnd {
  const { record, spent, artifacts, blob } = ending
  return {
    state: record.state,
    class: record.class,
    verifyMode: record.verifyMode,
    reward: record.reward,
    costMicros: spend ? spend.costMicros : 0,
    retries: trial.retries,
    detail: {
      rewards: record.rewards,
      timings: record.timings,
      isolation: isolationOf(record),
      ...(record.resources ? { resources: record.resources } : {}),
      ...spendDetail(spend),
      ...(spent ? spentDetail(spent) : {}),
      ...(artifacts.length > 0 ? { artifacts } : {}),
      ...(record.error === null ? {} : { error: record.error }),
    },
    artifacts: blob,
  }
}

/** What can go wrong without a word is told only where it did. */
const spentDetail = ({ modelsServed, levelMismatches, helperCalls }: Spent) => ({
  modelsServed,
  ...(levelMismatches > 0 ? { levelMismatches } : {}),
  ...(helperCalls > 0 ? { helperCalls } : {}),
})

const isolationOf = ({ base, isolation }: Pick<TrialRecord, 'base' | 'isolation'>): string =>
  base === 'host-base' ? 'host-base' : isolation
