import type { Blobs } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, paged } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { cancelAll } from '../platform/jobs/jobs.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type Place, readRepository } from '../repos/repos.ts'
import { type By, record } from '../workspaces/audit.ts'
import { keepArchive } from './archives.ts'
import { enqueueImport, importJobId } from './import.ts'
import { batchIdOf, runIdOf, runOf } from './run.ts'
import type { BatchRun } from './shapes/schema.ts'
import * as rows from './sql.ts'
import { validationJobId } from './validate.ts'

export type BatchRow = rows.BatchRow

/** Whether a batch of this repository has not ended. */
export const hasOpenBatches = (db: Db, repository: number): Promise<boolean> => rows.hasOpenBatches(db, repository)

type Tools = { db: Db; blobs: Blobs }
/** `db` may be a transaction that also remembers the answer; the archive is kept before it, and goes by itself. */
type Import = { repository: number; path: string; db: Db }

export async function importBatch(tools: Tools, by: By, { repository, path, db }: Import) {
  const id = newId()
  const archive = await keepArchive(tools, id, path)
  const run = await transact(db, async (tx) => {
    const row = await rows.insertBatch(tx, { id, repository, archive })
    await enqueueImport(tx, id)
    await record(tx, { ...by, action: 'batch.imported', subject: runIdOf(id) })
    return runOf(row, [])
  })
  return { runId: run.runId, run }
}

export async function listBatches(db: Db, repository: number, page: Page) {
  const found = await rows.listBatchRows(db, repository, page)
  const tallies = Map.groupBy(
    await rows.listTallies(
      db,
      found.map(({ id }) => id),
    ),
    ({ batch }) => batch,
  )
  const { items, nextCursor } = paged(
    found,
    page.limit,
    (row) => runOf(row, tallies.get(row.id) ?? []),
    (row) => ({ at: row.created_at, id: row.id }),
  )
  return { batches: items, nextCursor }
}

/** Of this repository of this workspace, or not found. */
export async function readBatchRow(db: Db, place: Place, runId: string): Promise<BatchRow> {
  const { key } = await readRepository(db, place)
  const row = await rows.findBatch(db, batchIdOf(runId))
  if (row?.repository === key) return row
  throw new Problem(notFound, `There is no batch ${runId} here.`)
}

/** As it is now. */
export async function readRun(db: Db, id: string): Promise<BatchRun | undefined> {
  const row = await rows.findBatch(db, id)
  return row && runOf(row, await rows.listTallies(db, [id]))
}

async function requireRun(db: Db, id: string): Promise<BatchRun> {
  const run = await readRun(db, id)
  if (run) return run
  throw new Problem(notFound, 'The batch was removed.')
}

export const readStatus = (db: Db, { id }: BatchRow): Promise<BatchRun> => requireRun(db, id)

/** Ends what has not ended. Twice is as good as once. */
export async function cancelBatch(db: Db, by: By, { id }: BatchRow): Promise<BatchRun> {
  const jobs = await transact(db, async (tx) => {
    const row = await rows.lockBatch(tx, id)
    if (!row || !rows.isOpen(row)) return []
    await rows.cancelBatch(tx, id)
    await record(tx, { ...by, action: 'batch.canceled', subject: runIdOf(id) })
    const tasks = await rows.listValidating(tx, id)
    return [importJobId(id), ...tasks.map((task) => validationJobId(id, task))]
  })
  // After the row: whoever works on a job holds the job and waits for the row.
  if (jobs.length > 0) await cancelAll(db, jobs)
  return requireRun(db, id)
}

/** Goes on, whatever stopped it; what goes on by itself is left alone. */
export async function resumeBatch(db: Db, by: By, { id }: BatchRow): Promise<BatchRun> {
  await transact(db, async (tx) => {
    // The job before the row, as everybody takes them.
    await enqueueImport(tx, id)
    const row = await rows.lockBatch(tx, id)
    if (!row || rows.isOpen(row)) return
    const isWorthIt = row.state !== 'completed' || (await rows.validateAgain(tx, id))
    if (!isWorthIt) return
    await rows.reopenBatch(tx, id)
    await record(tx, { ...by, action: 'batch.resumed', subject: runIdOf(id) })
  })
  return requireRun(db, id)
}
