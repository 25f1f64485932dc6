import { findSandboxChoice } from '../catalog/sandboxes.ts'
import { type Tools as CredentialTools, findCredential } from '../credentials/credentials.ts'
import { setSharedBudget } from '../gateway/spend/spend.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type By, record } from '../workspaces/audit.ts'
import { refuse } from './choices.ts'
import { micros } from './comparisons.ts'
import * as rows from './sql.ts'
import { enqueueSubmission } from './submit.ts'
import { cancelTrials, requeueTrials, stopJobs } from './trials/queue.ts'
import { sharedBudgetOf } from './trials/spend.ts'

type Change = { budgetUsd?: number | undefined; credentials?: Record<string, string> | undefined }

/** Goes on, whatever stopped it; what goes on by itself is left alone. Nothing is started over, and nothing is doubled. */
export async function resumeComparison(tools: CredentialTools, by: By, found: rows.ComparisonRow, change: Change) {
  const swaps = await swapsIn(tools, by.workspaceId, found, change.credentials ?? {})
  return transact(tools.db, async (tx) => {
    // The job before the row, as everybody takes them.
    await enqueueSubmission(tx, found.key)
    const row = await rows.lockComparison(tx, found.key)
    if (!row) return
    const budget = micros(change.budgetUsd)
    if (budget !== null) await setBudget(tx, by.workspaceId, row.key, budget)
    for (const { from, to } of swaps) await rows.swapCredential(tx, row.key, from, to)
    if (row.state !== 'submitting' && row.state !== 'running') await goOn(tx, by, row)
  })
}

async function setBudget(tx: Db, workspaceId: string, key: number, budgetMicros: number): Promise<void> {
  await rows.setBudget(tx, key, budgetMicros)
  await setSharedBudget(tx, { id: sharedBudgetOf(key), workspaceId, budgetMicros })
}

async function goOn(tx: Db, by: By, { key, id, state, submitted_at }: rows.ComparisonRow): Promise<void> {
  if (state === 'canceled') await requeueTrials(tx, key, 'canceled')
  // A completed comparison without errored trials stays completed: reopening it would end it a second time.
  if (state === 'completed' && !(await requeueTrials(tx, key, 'errored'))) return
  await rows.goOn(tx, key, submitted_at === null ? 'submitting' : 'running')
  await rows.holdCredentials(tx, key)
  await record(tx, { ...by, action: 'comparison.resumed', subject: id })
}

type Swap = { from: string; to: string }

/** The new one must open the same doors as the old one did. */
async function swapsIn(
  tools: CredentialTools,
  workspaceId: string,
  row: rows.ComparisonRow,
  credentials: Record<string, string>,
): Promise<Swap[]> {
  const providers = await providersIn(tools.db, row)
  const swaps: Swap[] = []
  for (const [old, fresh] of Object.entries(credentials)) {
    const [from, to] = [old.toLowerCase(), fresh.toLowerCase()]
    const wanted = providers.get(from)
    const credential = await findCredential(tools, workspaceId, to)
    if (wanted === undefined || `${credential?.kind} ${credential?.provider}` !== wanted)
      refuse([{ pointer: `/credentials/${old}`, code: 'credential_misfit', message: 'It cannot take that place.' }])
    swaps.push({ from, to })
  }
  return swaps
}

async function providersIn(db: Db, row: rows.ComparisonRow): Promise<Map<string, string>> {
  const settings = await rows.listSettingRows(db, [row.key])
  return new Map([
    ...settings.map((setting): [string, string] => [setting.credential_id, `model ${setting.provider}`]),
    [row.sandbox_credential_id, `sandbox ${findSandboxChoice(row.sandbox)?.provider}`],
  ])
}

/** Ends all that has not ended. Twice is as good as once. */
export async function cancelComparison(db: Db, by: By, key: number): Promise<void> {
  const stopped = await transact(db, async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (!row || row.state === 'canceled' || row.state === 'completed') return []
    const ordinals = await cancelTrials(tx, key)
    await rows.endRow(tx, key, 'canceled')
    await rows.releaseCredentials(tx, key)
    await record(tx, { ...by, action: 'comparison.canceled', subject: row.id })
    return ordinals
  })
  await stopJobs(db, key, stopped)
}
