import { findSandboxChoice } from '../catalog/sandboxes.ts'
import { type CredentialDeps, findCredential } from '../credentials/credentials.ts'
import { setSharedBudget } from '../gateway/spend/spend.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { rejectRequest } from './choices.ts'
import { toBudgetMicros } from './comparisons.ts'
import { comparisonNotRunning } from './schema.ts'
import * as rows from './sql.ts'
import { pauseComparison } from './state.ts'
import { enqueueSubmission } from './submit.ts'
import { stopJobs } from './trials/queue/queue.ts'
import { cancelTrialRows, requeueTrialRows } from './trials/sql.ts'

type ResumeInput = { budgetUsd?: number | undefined; credentials?: Record<string, string> | undefined }

/** Resumes a stopped comparison where it left off. Changes of budget and credentials also apply to a running one. */
export async function resumeComparison(
  deps: CredentialDeps,
  by: AuditActor,
  comparison: rows.ComparisonRow,
  input: ResumeInput,
) {
  const swaps = await resolveSwaps(deps, by.workspaceId, comparison, input.credentials ?? {})
  return transact(deps.db, async (tx) => {
    // The job is locked before the row, as in the submission job.
    await enqueueSubmission(tx, comparison.key)
    const row = await rows.lockComparison(tx, comparison.key)
    if (!row) return
    const budget = toBudgetMicros(input.budgetUsd)
    if (budget !== null) await setBudget(tx, by.workspaceId, row.key, budget)
    for (const { from, to } of swaps) await rows.swapCredential(tx, row.key, from, to)
    if (row.state !== 'submitting' && row.state !== 'running') await continueComparison(tx, by, row)
  })
}

async function setBudget(tx: Db, workspaceId: string, key: number, budgetMicros: number): Promise<void> {
  await rows.setBudget(tx, key, budgetMicros)
  await setSharedBudget(tx, { id: rows.toSharedBudgetId(key), workspaceId, budgetMicros })
}

async function continueComparison(
  tx: Db,
  by: AuditActor,
  { key, id, state, submitted_at }: rows.ComparisonRow,
): Promise<void> {
  if (state === 'canceled') await requeueTrialRows(tx, key, 'canceled')
  // A completed comparison without errored trials stays completed: reopening it would end it a second time.
  if (state === 'completed' && !(await requeueTrialRows(tx, key, 'errored'))) return
  await rows.reopenComparison(tx, key, submitted_at === null ? 'submitting' : 'running')
  await rows.holdCredentials(tx, key)
  await record(tx, { ...by, action: 'comparison.resumed', subject: id })
}

type CredentialSwap = { from: string; to: string }

/** Checks the credential replacements. The new credential must have the kind and provider of the old one. */
async function resolveSwaps(
  deps: CredentialDeps,
  workspaceId: string,
  row: rows.ComparisonRow,
  credentials: Record<string, string>,
): Promise<CredentialSwap[]> {
  const uses = await loadCredentialUses(deps.db, row)
  const swaps: CredentialSwap[] = []
  for (const [old, replacement] of Object.entries(credentials)) {
    const [from, to] = [old.toLowerCase(), replacement.toLowerCase()]
    const required = uses.get(from)
    const credential = await findCredential(deps, workspaceId, to)
    if (required === undefined || `${credential?.kind} ${credential?.provider}` !== required) {
      const message =
        required === undefined
          ? 'The comparison uses no credential with this id.'
          : `The replacement must be a credential of the same kind and provider: ${required}.`
      rejectRequest([{ pointer: `/credentials/${old}`, code: 'credential_misfit', message }])
    }
    swaps.push({ from, to })
  }
  return swaps
}

/** Returns the kind and provider that each credential of the comparison is used for, such as `model anthropic`. */
async function loadCredentialUses(db: Db, row: rows.ComparisonRow): Promise<Map<string, string>> {
  const settings = await rows.listSettingRows(db, [row.key])
  return new Map([
    ...settings.map((setting): [string, string] => [setting.credential_id, `model ${setting.provider}`]),
    [row.sandbox_credential_id, `sandbox ${findSandboxChoice(row.sandbox)?.provider}`],
  ])
}

const PAUSE_MESSAGE = 'Paused on request. Resume it to start the remaining trials.'

/**
 * Pauses a running comparison. Trials that are running continue to their end, so that what they spent is not lost.
 * Idempotent.
 */
export const pauseOnRequest = (db: Db, by: AuditActor, key: number): Promise<void> =>
  transact(db, async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (!row || row.state === 'paused') return
    if (row.state !== 'running')
      throw new Problem(comparisonNotRunning, `The comparison is ${row.state}. Only a running one can be paused.`)
    await pauseComparison(tx, key, 'requested', PAUSE_MESSAGE)
    await record(tx, { ...by, action: 'comparison.paused', subject: row.id })
  })

/** Cancels all open trials. Idempotent. */
export async function cancelComparison(db: Db, by: AuditActor, key: number): Promise<void> {
  const stopped = await transact(db, async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (!row || row.state === 'canceled' || row.state === 'completed') return []
    const ordinals = await cancelTrialRows(tx, key)
    await rows.endComparison(tx, key, 'canceled')
    await rows.releaseCredentials(tx, key)
    await record(tx, { ...by, action: 'comparison.canceled', subject: row.id })
    return ordinals
  })
  await stopJobs(db, key, stopped)
}
