import type { Db } from '../platform/db/db.ts'
import { readPlace } from '../repos/repos.ts'
import { tell } from '../webhooks/tell.ts'
import { runIdOf } from './run.ts'
import type { BatchError, Waiting } from './shapes/schema.ts'
import * as rows from './sql.ts'
import type { StageName } from './stages/make.ts'

export type BatchRow = rows.BatchRow

// How a batch and its tasks move on, for those of its own rooms that do not see its tables. Only what is open moves.

export type Files = rows.Files
export type NewCandidate = rows.NewCandidate
export type TaskKey = rows.TaskKey
export type Landed = rows.Landed

export const findOpenBatch = async (db: Db, id: string): Promise<BatchRow | undefined> => {
  const row = await rows.findBatch(db, id)
  return row && rows.isOpen(row) ? row : undefined
}

/** Held until the transaction ends. The job before it, its tasks after it. */
export const lockOpenBatch = async (tx: Db, id: string): Promise<BatchRow | undefined> => {
  const row = await rows.lockBatch(tx, id)
  return row && rows.isOpen(row) ? row : undefined
}

export const beginDiscovery = async (db: Db, id: string): Promise<void> => void (await rows.setDiscovering(db, id))
export const goOn = async (tx: Db, id: string): Promise<void> => void (await rows.setRunning(tx, id))

export async function complete(tx: Db, id: string): Promise<void> {
  const ended = await endedBatch(tx, id, await rows.completeBatch(tx, id))
  if (ended) await tell(tx, ended.workspaceId, { type: 'batch.completed', data: ended.data })
}

export async function fail(tx: Db, id: string, error: BatchError): Promise<void> {
  const ended = await endedBatch(tx, id, await rows.failBatch(tx, id, error))
  const { code, message } = error
  if (!ended) return
  await tell(tx, ended.workspaceId, { type: 'batch.failed', data: { ...ended.data, error: { code, message } } })
}

const ARCHIVE_DAYS = 7

/** Who has canceled a batch, or seen it break, may want to go on with it; not for ever. */
export const letArchivesGo = async (db: Db): Promise<void> => void (await rows.dropArchives(db, ARCHIVE_DAYS))

async function endedBatch(tx: Db, id: string, repository: number | undefined) {
  if (repository === undefined) return undefined
  const { workspaceId, owner, name } = await readPlace(tx, repository)
  return { workspaceId, data: { repository: `${owner}/${name}`, runId: runIdOf(id) } }
}

export const wait = async (tx: Db, id: string, waiting: Waiting): Promise<void> =>
  void (await rows.setWaiting(tx, id, waiting))

export const errorOf = (code: string, message: string, retryable: boolean): BatchError => ({
  ...{ code, message, retryable, at: new Date().toISOString() },
})

/** Its candidates are listed, and what was found on the way. */
export async function listCandidates(
  tx: Db,
  batch: string,
  candidates: readonly NewCandidate[],
  found: Parameters<typeof rows.setDiscovered>[2],
): Promise<void> {
  if (candidates.length > 0) await rows.insertCandidates(tx, batch, candidates)
  await rows.setDiscovered(tx, batch, found)
}

/** False: somebody has sent the task elsewhere meanwhile. */
export const passTask = (
  tx: Db,
  key: TaskKey,
  stage: StageName,
  progress: Parameters<typeof rows.passTask>[3],
): Promise<boolean> => rows.passTask(tx, key, stage, progress)

export const rejectTask = async (
  tx: Db,
  key: TaskKey,
  stage: StageName,
  rejection: rows.RejectionFound,
): Promise<void> => void (await rows.rejectTask(tx, key, stage, rejection))

export const deferTask = async (tx: Db, key: TaskKey, stage: StageName, deferral: Waiting): Promise<void> =>
  void (await rows.deferTask(tx, key, stage, deferral))

export const endDeferral = async (tx: Db, key: TaskKey): Promise<void> => void (await rows.endDeferral(tx, key))
export const endDeferrals = async (tx: Db, batch: string): Promise<void> => void (await rows.endDeferrals(tx, batch))

/** Those of the same pull request that nobody has decided on are not ready any more. */
export const supersede = async (tx: Db, landed: Landed, detail: string): Promise<void> =>
  void (await rows.supersede(tx, landed, { reason: 'superseded', detail }))

export const addConcern = async (tx: Db, key: TaskKey, concern: string): Promise<void> =>
  void (await rows.addConcern(tx, key, concern))

export const addSpend = async (tx: Db, key: TaskKey, micros: number): Promise<void> =>
  void (await rows.addSpend(tx, key, micros))
