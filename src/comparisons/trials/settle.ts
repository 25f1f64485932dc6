import { toFirstLine } from '../../gateway/explanation.ts'
import type { GranteeSpend } from '../../gateway/spend/spend.ts'
import type { GrantTotals } from '../../gateway/totals.ts'
import { type Db, storableText } from '../../platform/db/db.ts'
import type { TrialRecord } from '../../trials/record.ts'
import { type CellTrial, type CountChanges, diffCell } from '../counts.ts'
import { listCellOrdinals } from '../plan.ts'
import type { ComparisonPause, TrialClass, TrialState } from '../shapes/schema.ts'
import { recordIsolation } from '../sql.ts'
import type { OnStep } from '../state.ts'
import { isComparisonRunning, pauseComparison } from '../state.ts'
import type { StoredArtifact } from './artifacts.ts'
import { enqueueTrial } from './queue/queue.ts'
import { deleteRunningAgent } from './queue/sql.ts'
import { findTrialSpend, takeTrialSpend, toPublicUsage } from './spend.ts'
import { findTrialState, insertFailedAttempt, lockTrials, storeEnd, type TrialEnd, type TrialFacts } from './sql.ts'

/** The end of one attempt of a trial. */
export type AttemptEnding =
  | {
      kind: 'ran'
      record: AttributedRecord
      totals: AttemptTotals | null
      /** Null after a full score. */
      explanation: string | null
      artifacts: StoredArtifact[]
      blob: string | null
    }
  /** The infrastructure failed. */
  | { kind: 'broken'; class: TrialClass; error: string }
  /** The workers that ran the trial died. It scores 0, because otherwise an agent could exclude its own trial. */
  | { kind: 'deadly'; error: string }
  /** The task cannot be used for trials. */
  | { kind: 'unfit'; error: string }
  /** The comparison must pause; the trial itself did not fail. */
  | { kind: 'stopped'; reason: ComparisonPause['reason']; message: string }

/** Trial record after applying the gateway's verdict. */
export type AttributedRecord = Omit<TrialRecord, 'class'> & { class: TrialClass }

/** Gateway totals of one attempt that are stored with the trial. */
type AttemptTotals = Pick<GrantTotals, 'modelsServed' | 'levelMismatches' | 'helperCalls'>

const RETRIES_MAX = 2

/** Returns true if an infrastructure failure of the trial leads to another attempt. */
export const hasRetriesLeft = ({ retries }: Pick<TrialFacts, 'retries'>): boolean => retries < RETRIES_MAX
/** Classes for which another attempt in a fresh sandbox may succeed. */
const RETRIED_CLASSES: readonly string[] = ['provider_error', 'sandbox_error', 'verifier_error']

/** Thrown when the trial was canceled or requeued during the attempt, so that its result is discarded. */
export class AttemptSuperseded extends Error {
  override name = 'AttemptSuperseded'
}

type SettleOptions = { retryMs: number; step?: OnStep | undefined }

/**
 * Stores the end of an attempt: the trial, its counts, and its next job if it is retried. Returns the number of open
 * trials in the same count row. Lock order: the comparison, then its trials, then counts.
 */
export async function settleAttempt(
  tx: Db,
  trial: TrialFacts,
  ending: AttemptEnding,
  { retryMs, step = () => {} }: SettleOptions,
): Promise<number> {
  const spentMicros = await takeTrialSpend(tx, trial)
  const end = toTrialEnd(trial, ending, await findTrialSpend(tx, trial))
  if (ending.kind === 'stopped')
    await pauseComparison(tx, trial.comparison, ending.reason, storableText(ending.message))
  const isRetried = end.state === 'queued' && (await isComparisonRunning(tx, trial.comparison))
  const before = trial.attempts === 1 ? [toRunningTrial(trial)] : await lockCell(tx, trial)
  const after = before.map((each) => (each.attempt === trial.attempt ? { ...each, ...end } : each))
  const openTrials = await storeEnd(tx, trial, end, toCountChanges(end.state, diffCell(before, after), spentMicros))
  if (openTrials === undefined) throw new AttemptSuperseded()
  if (trial.provider !== 'none') await deleteRunningAgent(tx, trial)
  step('trial.stored')
  if (ending.kind !== 'stopped' && end.state === 'queued') await storeFailedAttempt(tx, trial, ending)
  if (isRetried) await enqueueTrial(tx, toTrialQueue(trial), trial.ordinal, new Date(Date.now() + retryMs))
  if (ending.kind === 'ran' && resolveIsolation(ending.record) !== trial.isolation)
    await recordIsolation(tx, trial.comparison, trial.setting, resolveIsolation(ending.record))
  return openTrials
}

/** Returns the running trial as its cell has it. With one attempt per task it is the only one, so no query is needed. */
const toRunningTrial = ({ attempt }: TrialFacts): CellTrial => ({
  attempt,
  state: 'running',
  costMicros: null,
  voided: false,
})

async function lockCell(tx: Db, trial: TrialFacts): Promise<CellTrial[]> {
  const rows = await lockTrials(tx, trial.comparison, listCellOrdinals(trial, trial))
  return rows.map((row) => ({
    attempt: row.attempt,
    state: row.state,
    costMicros: row.cost_micros,
    voided: row.voided_at !== null,
  }))
}

/** Enqueues a new job if the trial is waiting and its comparison is running. */
export async function enqueueIfWaiting(tx: Db, trial: TrialFacts): Promise<void> {
  if (!(await isComparisonRunning(tx, trial.comparison))) return
  if ((await findTrialState(tx, trial)) === 'queued') await enqueueTrial(tx, toTrialQueue(trial), trial.ordinal)
}

const toTrialQueue = (trial: TrialFacts) => ({ ...trial, key: trial.comparison })

const toCountChanges = (state: TrialState, cellChanges: CountChanges, spentMicros: number): CountChanges => ({
  ...cellChanges,
  running: -1,
  [state]: 1,
  spent_micros: spentMicros,
  metered: state === 'queued' ? 0 : 1,
  spent_squares: spentMicros ** 2,
})

async function storeFailedAttempt(
  tx: Db,
  trial: TrialFacts,
  ending: Exclude<AttemptEnding, { kind: 'stopped' }>,
): Promise<void> {
  const failure = toFailure(ending)
  await insertFailedAttempt(tx, {
    comparison: trial.comparison,
    ordinal: trial.ordinal,
    number: trial.retries + 1,
    class: failure.class,
    error: failure.error ?? 'No error message',
    detail: ending.kind === 'ran' ? { timings: ending.record.timings, artifacts: ending.artifacts } : {},
    artifacts: ending.kind === 'ran' ? ending.blob : null,
  })
}

function toFailure(ending: Exclude<AttemptEnding, { kind: 'stopped' }>): { class: TrialClass; error: string | null } {
  if (ending.kind === 'ran') return ending.record
  if (ending.kind === 'deadly') return { class: 'agent_exit', error: ending.error }
  return ending.kind === 'unfit' ? { class: 'verifier_error', error: ending.error } : ending
}

const NO_RESULT = { class: null, verifyMode: null, reward: null, costMicros: null, detail: null, artifacts: null }

/** Converts an ending to the new state of the trial. `spend` covers all attempts. */
function toTrialEnd(trial: TrialFacts, ending: AttemptEnding, spend: GranteeSpend | undefined): TrialEnd {
  if (ending.kind === 'stopped') return { ...NO_RESULT, state: 'queued', retries: trial.retries }
  const failure = toFailure(ending)
  const mayRetry = ending.kind !== 'unfit' && RETRIED_CLASSES.includes(failure.class) && hasRetriesLeft(trial)
  if (mayRetry) return { ...NO_RESULT, state: 'queued', retries: trial.retries + 1 }
  if (ending.kind === 'ran') return toRecordedEnd(trial, ending, spend)
  const detail = {
    error: failure.error,
    explanation: failure.error === null ? undefined : toFirstLine(failure.error),
    ...toSpendDetail(spend),
  }
  const costMicros = spend ? spend.costMicros : 0
  const end = { ...NO_RESULT, class: failure.class, retries: trial.retries, costMicros }
  if (ending.kind !== 'deadly') return { ...end, state: 'errored', detail }
  return {
    ...end,
    state: 'failed',
    verifyMode: trial.verifyMode,
    reward: 0,
    detail: { ...detail, rewards: { reward: 0 } },
  }
}

const toSpendDetail = (spend: GranteeSpend | undefined) =>
  spend ? { usage: toPublicUsage(spend.usage), costSource: spend.costSource } : {}

type RanEnding = Extract<AttemptEnding, { kind: 'ran' }>

function toRecordedEnd(trial: TrialFacts, ending: RanEnding, spend: GranteeSpend | undefined): TrialEnd {
  const { record, totals, explanation, artifacts, blob } = ending
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
      isolation: resolveIsolation(record),
      resources: record.resources ?? undefined,
      ...toSpendDetail(spend),
      ...(totals ? toTotalsDetail(totals) : {}),
      artifacts: artifacts.length > 0 ? artifacts : undefined,
      error: record.error ?? undefined,
      explanation: explanation === null ? undefined : storableText(explanation),
      droppedChanges: listDroppedChanges(record),
      failedTests: listFailedTests(record),
    },
    artifacts: blob,
  }
}

/** Lists files of the configuration that the agent changed in any step. Returns undefined instead of an empty list. */
function listDroppedChanges({ steps }: Pick<TrialRecord, 'steps'>): string[] | undefined {
  const dropped = [...new Set(steps.flatMap((step) => step.droppedChanges ?? []))]
  return dropped.length > 0 ? dropped : undefined
}

function listFailedTests({ steps }: AttributedRecord): string[] | undefined {
  const names = steps.flatMap(({ failedTests = [] }) => failedTests)
  return names.length === 0 ? undefined : names.map(storableText)
}

/** Omits counts of zero, which are the normal case. */
const toTotalsDetail = ({ modelsServed, levelMismatches, helperCalls }: AttemptTotals) => ({
  modelsServed,
  levelMismatches: levelMismatches > 0 ? levelMismatches : undefined,
  helperCalls: helperCalls > 0 ? helperCalls : undefined,
})

const resolveIsolation = ({ base, isolation }: Pick<TrialRecord, 'base' | 'isolation'>): string =>
  base === 'host-base' ? 'host-base' : isolation
