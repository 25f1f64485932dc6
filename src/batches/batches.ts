import type { Blobs } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, paged } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { cancelAll, withdrawAll } from '../platform/jobs/jobs.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type Place, readRepository } from '../repos/repos.ts'
import * as batchState from '../taskgen/pipeline/batch-state.ts'
import { discoverJobId, enqueueDiscovery } from '../taskgen/pipeline/discover.ts'
import { credentialsOf, resolveGeneration, warningsOf } from '../taskgen/pipeline/resolve.ts'
import { jobsOf, waitingJobsOf } from '../taskgen/pipeline/waiting.ts'
import { batchIdOf, type GenerationOptions, isOpen, microsOf, type NewBatch, runIdOf } from '../taskgen/schema.ts'
import { type By, record } from '../workspaces/audit.ts'
import { keepArchive } from './archives.ts'
import { enqueueImport, importJobId } from './import.ts'
import { runOf } from './run.ts'
import { archiveGone, type BatchRun } from './schema.ts'
import * as rows from './sql.ts'
import { validationJobId } from './validate.ts'

export const { hasOpenBatches } = rows

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

type Creation = { repository: number; options: GenerationOptions; wish: NewBatch }

/** What is asked for is checked against what there is; then it is written down, with the job that begins it. */
export async function createBatch(db: Db, by: By, { repository, options, wish }: Creation) {
  const generation = resolveGeneration(options, wish.generation)
  const id = newId()
  const run = await transact(db, async (tx) => {
    const { candidateCounts, again, budgetUsd } = wish
    const budget_micros = budgetUsd === undefined ? null : microsOf(budgetUsd)
    const fresh = { id, repository, ...candidateCounts, again, budget_micros }
    const row = await rows.insertGenerated(tx, fresh, generation, warningsOf(generation))
    await batchState.holdCredentials(tx, id, credentialsOf(generation))
    await enqueueDiscovery(tx, id)
    await record(tx, { ...by, action: 'batch.created', subject: runIdOf(id) })
    return runOf(row, [])
  })
  return { runId: run.runId, run }
}

export async function listBatches(db: Db, repository: number, page: Page) {
  const found = await rows.listBatchRows(db, repository, page)
  const ids = found.map(({ id }) => id)
  const tallies = Map.groupBy(await rows.listTallies(db, ids), ({ batch }) => batch)
  const { items, nextCursor } = paged(
    found,
    page.limit,
    (row) => runOf(row, tallies.get(row.id) ?? []),
    (row) => ({ at: row.created_at, id: row.id }),
  )
  return { batches: items, nextCursor }
}

/** Of this repository of this workspace, or not found. */
export async function readBatchRow(db: Db, place: Place, runId: string): Promise<batchState.BatchRow> {
  const { key } = await readRepository(db, place)
  const row = await batchState.findBatch(db, batchIdOf(runId))
  if (row?.repository === key) return row
  throw new Problem(notFound, `There is no batch ${runId} here.`)
}

/** As it is now. */
export async function findRun(db: Db, id: string): Promise<BatchRun | undefined> {
  const row = await batchState.findBatch(db, id)
  return row && runOf(row, await rows.listTallies(db, [id]))
}

export async function readRun(db: Db, id: string): Promise<BatchRun> {
  const run = await findRun(db, id)
  if (run) return run
  throw new Problem(notFound, 'The batch was removed.')
}

/** Ends what has not ended. Twice is as good as once. */
export async function cancelBatch(db: Db, by: By, { id }: batchState.BatchRow): Promise<BatchRun> {
  const jobs = await transact(db, async (tx) => {
    if (!(await batchState.lockOpenBatch(tx, id))) return []
    await batchState.cancelBatch(tx, id)
    await record(tx, { ...by, action: 'batch.canceled', subject: runIdOf(id) })
    const tasks = await rows.listValidating(tx, id)
    const making = await jobsOf(tx, id)
    return [importJobId(id), discoverJobId(id), ...tasks.map((task) => validationJobId(id, task)), ...making]
  })
  // After the row: whoever works on a job holds the job and waits for the row.
  if (jobs.length > 0) await cancelAll(db, jobs)
  return readRun(db, id)
}

type Change = { budgetUsd?: number | undefined }

/** Goes on, whatever stopped it; what goes on by itself is left alone, and what waits need not wait any longer. */
export async function resumeBatch(
  db: Db,
  by: By,
  found: batchState.BatchRow,
  { budgetUsd }: Change,
): Promise<BatchRun> {
  const { id, generation } = found
  await transact(db, async (tx) => {
    // The jobs before the row, as everybody takes them.
    if (generation === null) await enqueueImport(tx, id)
    else await lookAgain(tx, id)
    const row = await batchState.lockBatch(tx, id)
    if (!row) return
    if (budgetUsd !== undefined && generation !== null) await rows.setBudget(tx, id, microsOf(budgetUsd))
    if (generation !== null) await rows.endDeferrals(tx, id)
    if (!isOpen(row)) await reopenIfWorthIt(tx, by, row)
  })
  return readRun(db, id)
}

/** A job that waits for its time is withdrawn: the discovery enqueues every task again that has no job. */
async function lookAgain(tx: Db, id: string): Promise<void> {
  await withdrawAll(tx, [discoverJobId(id), ...(await waitingJobsOf(tx, id))])
  await enqueueDiscovery(tx, id)
}

async function reopenIfWorthIt(tx: Db, by: By, row: batchState.BatchRow): Promise<void> {
  if (row.step === 'unpack' && row.archive === null) throw new Problem(archiveGone, 'Send the archive again.')
  const isWorthIt = (await rows.tryAgain(tx, row.id)) || row.state !== 'completed'
  if (!isWorthIt) return
  await batchState.reopen(tx, row)
  await record(tx, { ...by, action: 'batch.resumed', subject: runIdOf(row.id) })
}
