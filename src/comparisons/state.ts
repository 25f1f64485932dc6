import { type Db, transact } from '../platform/db/db.ts'
import { readPlace } from '../repos/repos.ts'
import { tell } from '../webhooks/tell.ts'
import type { Pause, SubmissionError } from './shapes/schema.ts'
import * as rows from './sql.ts'
import { liftLimit, withdrawWaiting } from './trials/queue.ts'
import { hasOpenTrials } from './trials/tally.ts'

/** Nothing new starts; what runs goes on. The queue gets its places back. */
export async function pause(tx: Db, key: number, reason: Pause['reason'], message: string): Promise<void> {
  const paused = await rows.pauseRow(tx, key, { reason, message, at: new Date().toISOString() })
  if (!paused) return
  await withdrawWaiting(tx, key)
  const { workspaceId, compared } = await namedFor(tx, key)
  await tell(tx, workspaceId, { type: 'comparison.paused', data: { ...compared, pause: { reason, message } } })
}

export async function failSubmission(tx: Db, key: number, error: SubmissionError): Promise<void> {
  if (!(await rows.failSubmission(tx, key, error))) return
  const { workspaceId, compared } = await namedFor(tx, key)
  const { code, message } = error
  await tell(tx, workspaceId, { type: 'comparison.submission_failed', data: { ...compared, error: { code, message } } })
}

/** By what a webhook's receiver finds it. */
async function namedFor(tx: Db, key: number) {
  const row = await rows.findByKey(tx, key)
  if (!row) throw new Error(`The comparison ${key} is gone.`)
  const { owner, name } = row.repository
    ? await readPlace(tx, row.repository)
    : { owner: row.scope_owner, name: row.scope_name }
  const scope = { kind: row.scope_kind, owner, name }
  return { workspaceId: row.workspace_id, compared: { comparisonId: row.id, scope } }
}

/** Ends a comparison of which nothing is left to do. */
export const endIfDone = (db: Db, key: number): Promise<void> =>
  transact(db, async (tx) => {
    const row = await rows.lockComparison(tx, key)
    if (row?.state !== 'running' || (await hasOpenTrials(tx, key))) return
    await rows.endRow(tx, key, 'completed')
    await rows.releaseCredentials(tx, key)
    await liftLimit(tx, key)
    const { workspaceId, compared } = await namedFor(tx, key)
    await tell(tx, workspaceId, { type: 'comparison.completed', data: compared })
  })

/** For those whose last trial could not do it: its worker died a moment too early. */
export async function endAllDone(db: Db): Promise<void> {
  for (const key of await rows.listUnended(db)) await endIfDone(db, key)
}

/** Whether trials of it may wait in the queue. It stays so until the transaction ends. */
export async function goesOn(tx: Db, key: number): Promise<boolean> {
  return (await rows.holdState(tx, key))?.state === 'running'
}

export const noteStarted = (db: Db, key: number) => rows.noteStarted(db, key)

export const noteIsolation = (tx: Db, key: number, setting: number, isolation: string) =>
  rows.noteIsolation(tx, key, setting, isolation)
