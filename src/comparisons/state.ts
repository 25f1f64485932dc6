import { type Db, transact } from '../platform/db/db.ts'
import { emitEvent, isSubscribed } from '../webhooks/emit.ts'
import type { ComparisonPause, SubmissionError } from './shapes/schema.ts'
import * as rows from './sql.ts'
import { toAnswer } from './statistics/answer.ts'
import { computeComparisonStatistics } from './statistics/statistics.ts'
import { toNamedConfiguration } from './status.ts'
import { liftLimit, withdrawWaiting } from './trials/queue/queue.ts'
import { hasOpenTrials } from './trials/sql.ts'

/** Pauses a running comparison. Running trials continue; waiting ones are withdrawn from the queue. */
export async function pauseComparison(
  tx: Db,
  key: number,
  reason: ComparisonPause['reason'],
  message: string,
): Promise<void> {
  const paused = await rows.pauseRow(tx, key, { reason, message, at: new Date().toISOString() })
  if (!paused) return
  await withdrawWaiting(tx, key)
  const { workspaceId, ref } = await describeForWebhook(tx, key)
  await emitEvent(tx, workspaceId, { type: 'comparison.paused', data: { ...ref, pause: { reason, message } } })
}

export async function failSubmission(tx: Db, key: number, error: SubmissionError): Promise<void> {
  if (!(await rows.failSubmission(tx, key, error))) return
  const { workspaceId, ref } = await describeForWebhook(tx, key)
  const { code, message } = error
  await emitEvent(tx, workspaceId, { type: 'comparison.submission_failed', data: { ...ref, error: { code, message } } })
}

/** Reads the identification of a comparison that webhook events carry. */
async function describeForWebhook(tx: Db, key: number) {
  const row = await rows.findComparisonByKey(tx, key)
  if (!row) throw new Error(`Comparison row ${key} not found`)
  const scope = { kind: row.scope_kind, owner: row.scope_owner, name: row.scope_name }
  return { workspaceId: row.workspace_id, ref: { comparisonId: row.id, scope } }
}

/** Completes a comparison that has no open trials. */
export const completeIfDone = (db: Db, key: number): Promise<void> =>
  transact(db, async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (row?.state !== 'running' || (await hasOpenTrials(tx, key))) return
    await rows.endComparison(tx, key, 'completed')
    await rows.releaseCredentials(tx, key)
    await liftLimit(tx, key)
    await emitCompleted(tx, row)
  })

/** Emits the event with the answer, which is computed only if a webhook receives it. */
async function emitCompleted(tx: Db, row: rows.ComparisonRow): Promise<void> {
  if (!(await isSubscribed(tx, row.workspace_id, 'comparison.completed'))) return
  const { workspaceId, ref } = await describeForWebhook(tx, row.key)
  const settings = await rows.listSettingRows(tx, [row.key])
  // The numbers of trials matter only to comparisons that are still collecting results.
  const answer = toAnswer(
    { state: 'completed', tasks: row.tasks, attempts: row.attempts, trials: { total: 0, queued: 0, running: 0 } },
    settings.map((setting) => ({
      ...setting,
      model: setting,
      reasoningLevel: setting.reasoning_level,
      configuration: toNamedConfiguration(setting),
    })),
    await computeComparisonStatistics(tx, row),
  )
  await emitEvent(tx, workspaceId, { type: 'comparison.completed', data: { ...ref, answer } })
}

/** Completes comparisons whose last worker died before it could. */
export async function completeAllDone(db: Db): Promise<void> {
  for (const key of await rows.listCompletable(db)) await completeIfDone(db, key)
}

/** Returns true if the comparison is running. Locks its state until the transaction ends. */
export async function isComparisonRunning(tx: Db, key: number): Promise<boolean> {
  return (await rows.lockStateShared(tx, key))?.state === 'running'
}

/** Points between every two writes of a submission and a trial, in order. Tests stop the process at each of them. */
export const STEPS = [
  'submit.claimed',
  'submit.downloaded',
  'submit.frozen',
  'submit.inserted',
  'submit.planned',
  'submit.queued',
  'submit.enqueued',
  'trial.claimed',
  'trial.started',
  'trial.startRecorded',
  'trial.calibrated',
  'trial.granted',
  'trial.ran',
  'trial.stored',
  'trial.finished',
] as const

/** Called when a step is reached. */
export type OnStep = (step: (typeof STEPS)[number]) => void
