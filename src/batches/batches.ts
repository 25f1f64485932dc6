import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { setSharedBudget } from '../gateway/spend/spend.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import { createConcurrencyLimit } from '../platform/concurrency.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { cancelAll, deleteQueuedJobs } from '../platform/jobs/jobs.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { toMicros, toUsd } from '../platform/usd.ts'
import { type RepositoryRef, readRepository } from '../repos/repos.ts'
import type { BatchRow } from '../taskgen/pipeline/batch-state.ts'
import * as batchState from '../taskgen/pipeline/batch-state.ts'
import { discoverJobId, enqueueDiscovery } from '../taskgen/pipeline/discover.ts'
import { listDeferredJobs, listStageJobs } from '../taskgen/pipeline/enqueue.ts'
import { toBatchBudgetId } from '../taskgen/pipeline/facts.ts'
import { listCredentialIds, listGenerationWarnings, resolveGeneration } from '../taskgen/pipeline/resolve.ts'
import { hasPassed, type StageName } from '../taskgen/pipeline/stage.ts'
import {
  BatchError,
  Difficulty,
  Generation,
  type GenerationOptions,
  isOpen,
  type NewBatch,
  toBatchId,
  toRunId,
  Waiting,
} from '../taskgen/schema.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { enqueueImport, storeArchive, toImportJobId } from './import.ts'
import { archiveGone, type BatchRun, importsFull } from './schema.ts'
import type { TaskTally } from './sql.ts'
import * as rows from './sql.ts'
import { toValidationJobId } from './validate.ts'

/** A query for folders that may not import sql.ts. */
export const { hasOpenBatches } = rows

type ImportBatchDeps = { db: Db; blobs: Blobs }
type ImportBatchInput = { repository: number; path: string; bytes: number; db: Db }

/**
 * Creates a batch from an archive. `db` may be a transaction that also stores the response. The archive is stored before
 * the batch; without a batch it is removed later.
 */
export async function importBatch(
  deps: ImportBatchDeps,
  by: AuditActor,
  { repository, path, bytes, db }: ImportBatchInput,
) {
  await requireImportQuota(db, by.workspaceId, bytes)
  const id = newId()
  const archive = await storeArchive(deps, id, path)
  const run = await transact(db, async (tx) => {
    const row = await rows.insertBatch(tx, { id, repository, archive, archive_bytes: bytes })
    await enqueueImport(tx, id)
    await record(tx, { ...by, action: 'batch.imported', subject: toRunId(id) })
    return toBatchRun(row, [])
  })
  return { runId: run.runId, run }
}

const GIB = 1024 ** 3
const IMPORTED_BYTES_MAX = 4 * GIB

/** Checked before the archive is stored. Archives that arrive at the same time may exceed the quota together. */
async function requireImportQuota(db: Db, workspaceId: string, bytes: number): Promise<void> {
  if ((await rows.sumImportedBytes(db, workspaceId)) + bytes <= IMPORTED_BYTES_MAX) return
  throw new Problem(importsFull, `A workspace can store at most ${IMPORTED_BYTES_MAX / GIB} GiB of imports.`)
}

type CreateBatchInput = { repository: number; options: GenerationOptions; request: NewBatch }

/** Validates the request against the available options, then stores the batch together with its first job. */
export async function createBatch(db: Db, by: AuditActor, { repository, options, request }: CreateBatchInput) {
  const generation = resolveGeneration(options, request.generation)
  const id = newId()
  const run = await transact(db, async (tx) => {
    const { candidateCounts, again, budgetUsd } = request
    const budget_micros = budgetUsd === undefined ? null : toMicros(budgetUsd)
    const columns = { id, repository, ...candidateCounts, again, budget_micros }
    const row = await rows.insertGenerated(tx, columns, generation, listGenerationWarnings(options, generation))
    await setSharedBudget(tx, { id: toBatchBudgetId(id), workspaceId: by.workspaceId, budgetMicros: budget_micros })
    await batchState.holdCredentials(tx, id, listCredentialIds(generation))
    await enqueueDiscovery(tx, id)
    await record(tx, { ...by, action: 'batch.created', subject: toRunId(id) })
    return toBatchRun(row, [])
  })
  return { runId: run.runId, run }
}

export async function listBatches(db: Db, repository: number, page: Page) {
  const batchRows = await rows.listBatchRows(db, repository, page)
  const ids = batchRows.map(({ id }) => id)
  const tallies = Map.groupBy(await rows.listTallies(db, ids), ({ batch }) => batch)
  const { items, nextCursor } = toPage(batchRows, page.limit, toCreationCursor)
  return { batches: items.map((row) => toBatchRun(row, tallies.get(row.id) ?? [])), nextCursor }
}

/** Reads a batch of this repository and workspace; throws notFound. */
export async function readBatchRow(db: Db, ref: RepositoryRef, runId: string): Promise<BatchRow> {
  const { key } = await readRepository(db, ref)
  const row = await batchState.findBatch(db, toBatchId(runId))
  if (row?.repository === key) return row
  throw new Problem(notFound, `Batch ${runId} not found`)
}

async function findRun(db: Db, id: string): Promise<BatchRun | undefined> {
  const row = await batchState.findBatch(db, id)
  return row && toBatchRun(row, await rows.listTallies(db, [id]))
}

export async function readRun(db: Db, id: string): Promise<BatchRun> {
  const run = await findRun(db, id)
  if (run) return run
  throw new Problem(notFound, 'The batch was removed.')
}

/** Cancels a batch. Idempotent. */
export async function cancelBatch(db: Db, by: AuditActor, { id }: BatchRow): Promise<BatchRun> {
  const jobs = await transact(db, async (tx) => {
    if (!(await batchState.lockOpenBatch(tx, id))) return []
    await batchState.cancelBatch(tx, id)
    await record(tx, { ...by, action: 'batch.canceled', subject: toRunId(id) })
    const tasks = await rows.listValidating(tx, id)
    const stageJobs = await listStageJobs(tx, id)
    return [toImportJobId(id), discoverJobId(id), ...tasks.map((task) => toValidationJobId(id, task)), ...stageJobs]
  })
  // Jobs are canceled after the row is updated, because a worker holds its job while it waits for the row.
  if (jobs.length > 0) await cancelAll(db, jobs)
  return readRun(db, id)
}

type ResumeBatchInput = { budgetUsd?: number | undefined }

/** Resumes a batch after a failure, a cancellation or a wait. A no-op for work that is already running. */
export async function resumeBatch(
  db: Db,
  by: AuditActor,
  batch: BatchRow,
  { budgetUsd }: ResumeBatchInput,
): Promise<BatchRun> {
  const { id, generation } = batch
  await transact(db, async (tx) => {
    // Lock order: jobs first, then the row.
    if (generation === null) await enqueueImport(tx, id)
    else await restartDiscovery(tx, id)
    const row = await batchState.lockBatch(tx, id)
    if (!row) return
    if (budgetUsd !== undefined && generation !== null) {
      const budgetMicros = toMicros(budgetUsd)
      await rows.setBudget(tx, id, budgetMicros)
      await setSharedBudget(tx, { id: toBatchBudgetId(id), workspaceId: by.workspaceId, budgetMicros })
    }
    if (generation !== null) await rows.endDeferrals(tx, id)
    if (!isOpen(row)) await reopenIfUnfinished(tx, by, row)
  })
  return readRun(db, id)
}

/** Deletes deferred jobs and enqueues the discovery, which enqueues every task without a job again. */
async function restartDiscovery(tx: Db, id: string): Promise<void> {
  await deleteQueuedJobs(tx, [discoverJobId(id), ...(await listDeferredJobs(tx, id))])
  await enqueueDiscovery(tx, id)
}

/** Reopens an ended batch if tasks remain that can be continued or retried. */
async function reopenIfUnfinished(tx: Db, by: AuditActor, row: BatchRow): Promise<void> {
  if (row.step === 'unpack' && row.archive === null) throw new Problem(archiveGone, 'Send the archive again.')
  const hasWork = (await rows.retryBrokenTasks(tx, row.id)) || row.state !== 'completed'
  if (!hasWork) return
  await batchState.reopenBatch(tx, row)
  await record(tx, { ...by, action: 'batch.resumed', subject: toRunId(row.id) })
}

const Warnings = z.array(z.string())

/** Converts a batch and the counts of its tasks to the API format. */
const toBatchRun = (row: BatchRow, tallies: readonly TaskTally[]): BatchRun => ({
  runId: toRunId(row.id),
  state: row.state,
  createdAt: row.created_at.toISOString(),
  startedAt: row.started_at?.toISOString() ?? null,
  finishedAt: row.finished_at?.toISOString() ?? null,
  candidateCounts: { easy: row.easy, medium: row.medium, hard: row.hard },
  generation: row.generation === null ? null : Generation.parse(row.generation),
  counts: row.generation === null ? countImported(tallies) : countGenerated(row, tallies),
  byDifficulty: {
    easy: countBucket(row, tallies, 'easy'),
    medium: countBucket(row, tallies, 'medium'),
    hard: countBucket(row, tallies, 'hard'),
  },
  // The step `make` begins when the candidates are selected.
  shortfall: row.step === 'make' ? countShortfall(row, tallies) : 0,
  rejections: countRejections(tallies),
  waiting: row.waiting === null ? undefined : Waiting.parse(row.waiting),
  warnings: Warnings.parse(row.warnings),
  budgetUsd: row.budget_micros === null ? undefined : toUsd(row.budget_micros),
  costUsd: toUsd(tallies.reduce((sum, { spentMicros }) => sum + spentMicros, 0)),
  error: row.error === null ? undefined : BatchError.parse(row.error),
})

const sumCounts = (tallies: readonly TaskTally[], isWanted: (tally: TaskTally) => boolean = () => true): number =>
  tallies.filter(isWanted).reduce((sum, { count }) => sum + count, 0)

/** Reasons for which a task is rejected before anything of it is executed. */
const SCREENING_REASONS = ['invalid_task', 'unsafe_task', 'duplicate_name']

/** Counts the tasks by how they ended so far. */
const countEnds = (tallies: readonly TaskTally[]) => ({
  ready: sumCounts(tallies, ({ state }) => state === 'ready'),
  rejected: sumCounts(tallies, ({ state }) => state === 'rejected'),
  deferred: sumCounts(tallies, ({ isDeferred }) => isDeferred),
  approved: sumCounts(tallies, ({ decision }) => decision === 'approved'),
  declined: sumCounts(tallies, ({ decision }) => decision === 'declined'),
})

function countImported(tallies: readonly TaskTally[]): BatchRun['counts'] {
  const ends = countEnds(tallies)
  return {
    discovered: sumCounts(tallies),
    screened: sumCounts(tallies, ({ reason }) => reason === null || !SCREENING_REASONS.includes(reason)),
    executed: 0,
    authored: 0,
    validated: ends.ready,
    verified: 0,
    ...ends,
  }
}

function countGenerated(row: BatchRow, tallies: readonly TaskTally[]): BatchRun['counts'] {
  const passed = (stage: StageName) => sumCounts(tallies, (tally) => hasPassed(tally.stage, stage))
  return {
    discovered: row.discovered ?? 0,
    screened: row.screened ?? 0,
    executed: passed('execution'),
    authored: passed('authoring'),
    validated: passed('validation'),
    verified: passed('review'),
    ...countEnds(tallies),
  }
}

function countBucket(row: BatchRow, tallies: readonly TaskTally[], difficulty: Difficulty) {
  const inBucket = tallies.filter((tally) => tally.bucket === difficulty)
  return {
    requested: row[difficulty],
    selected: sumCounts(inBucket),
    ready: sumCounts(inBucket, ({ state }) => state === 'ready'),
  }
}

const countShortfall = (row: BatchRow, tallies: readonly TaskTally[]): number =>
  Difficulty.options
    .map((difficulty) => countBucket(row, tallies, difficulty))
    .map(({ requested, selected }) => Math.max(0, requested - selected))
    .reduce((sum, missing) => sum + missing, 0)

function countRejections(tallies: readonly TaskTally[]): Record<string, number> {
  const reasons = Map.groupBy(tallies, ({ reason }) => reason)
  return Object.fromEntries(
    [...reasons].flatMap(([reason, group]) => (reason === null ? [] : [[reason, sumCounts(group)] as const])),
  )
}

const POLL_MS = 500
/** Maximum number of batches that are polled at once, so that many watched ones leave connections for requests. */
const limitPolls = createConcurrencyLimit(2)

type BatchEvent = { event: string; data: unknown }

type RunSnapshot = Awaited<ReturnType<typeof findRun>>

const pendingReads = new Map<string, Promise<RunSnapshot>>()

/** Finds a batch. Concurrent readers of the same one share a query. */
function findSharedRun(db: Db, id: string): Promise<RunSnapshot> {
  const pending = pendingReads.get(id)
  if (pending) return pending
  const started = limitPolls(() => findRun(db, id)).finally(() => pendingReads.delete(id))
  pendingReads.set(id, started)
  return started
}

/**
 * Yields the status now and after each change, then the end. A reconnecting client starts with the current status.
 */
export async function* batchEvents(db: Db, id: string, signal: AbortSignal): AsyncGenerator<BatchEvent> {
  let lastSent = ''
  for await (const run of pollRun(db, id, signal)) {
    const text = JSON.stringify(run)
    if (text !== lastSent) yield { event: 'status', data: run }
    lastSent = text
    if (isOpen(run)) continue
    yield { event: 'end', data: { state: run.state } }
    return
  }
}

/** Yields the status of a batch again and again, until the batch is removed. Skips database outages. */
async function* pollRun(db: Db, id: string, signal: AbortSignal): AsyncGenerator<BatchRun> {
  while (!signal.aborted) {
    const run = await findSharedRun(db, id).catch(() => 'unavailable' as const)
    if (run === undefined) return
    if (run !== 'unavailable') yield run
    await wait(POLL_MS, undefined, { signal }).catch(() => undefined)
  }
}
