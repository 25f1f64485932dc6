import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { findAvailableSandbox } from '../catalog/capabilities.ts'
import { withDraft } from '../contents/drafts.ts'
import { unpack } from '../harbor/archive.ts'
import { ArchiveRefused } from '../harbor/archive-refused.ts'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import { defineJobHandler, defineJobType, enqueue, type Job, type JobHandler } from '../platform/jobs/jobs.ts'
import { type NewTask, type ScreenedTask, screenTask } from '../taskgen/assembly/screen-task.ts'
import {
  type BatchRow,
  beginDiscovery,
  failBatch,
  findOpenBatch,
  lockOpenBatch,
  markRunning,
  newBatchError,
} from '../taskgen/pipeline/batch-state.ts'
import { type BatchError, TASKS_MAX } from '../taskgen/schema.ts'
import { openArchive } from './archives.ts'
import * as rows from './sql.ts'
import { listTaskFolders } from './task-folders.ts'
import { endIfDone, enqueueValidations, waitForSandbox } from './validate.ts'

export type ImportJobDeps = {
  db: Db
  blobs: Blobs
  draftsFolder: string
  /** How long a batch waits before it looks for a sandbox again. */
  sandboxWaitMs: number
}

const ImportPayload = z.strictObject({ batch: z.uuid() })
type ImportPayload = z.infer<typeof ImportPayload>

const importJobType = defineJobType({ type: 'batch.import', payload: ImportPayload, priority: 10 })

export const importJobId = (batch: string): string => derivedId('batch', batch)

export const enqueueImport = (tx: Db, batch: string, runAt?: Date): Promise<string> =>
  enqueue(tx, importJobType, { batch }, { id: importJobId(batch), runAt })

export const importJob = (tools: ImportJobDeps): JobHandler<ImportPayload> =>
  defineJobHandler(importJobType, {
    run: (job) => runImport(tools, job),
    onGivenUp: (tx, { batch }, reason) => failBatch(tx, batch, newBatchError('internal_error', reason, true)),
  })

/** List the tasks of the archive, then have each validated. What is written down is not done again. */
async function runImport(tools: ImportJobDeps, job: Job<ImportPayload>): Promise<void> {
  const { batch } = job.payload
  const row = await findOpenBatch(tools.db, batch)
  if (!row) return
  const refusal = row.step === 'unpack' ? await listTasks(tools, job, row) : undefined
  if (refusal) return job.finish((tx) => failBatch(tx, batch, refusal))

  const sandbox = await findAvailableSandbox(tools.db)
  await job.finish(async (tx) => {
    if (!(await lockOpenBatch(tx, batch))) return
    const waiting = await rows.listValidating(tx, batch)
    if (waiting.length > 0 && sandbox === undefined) {
      const until = await waitForSandbox(tx, batch, tools.sandboxWaitMs)
      return void (await enqueueImport(tx, batch, until))
    }
    await markRunning(tx, batch)
    if (sandbox !== undefined) await enqueueValidations(tx, { sandbox, batch, tasks: waiting })
    await endIfDone(tx, batch)
  })
}

const UNPACK_LIMITS = { timeMs: 600_000 }

async function listTasks(
  tools: ImportJobDeps,
  job: Job<ImportPayload>,
  { id, archive }: BatchRow,
): Promise<BatchError | undefined> {
  await beginDiscovery(tools.db, id)
  await mkdir(tools.draftsFolder, { recursive: true, mode: 0o700 })
  const place = await mkdtemp(join(tools.draftsFolder, 'import-'))
  try {
    const root = join(place, 'task')
    await unpack(await openArchive(tools.blobs, id, archive ?? ''), root, UNPACK_LIMITS)
    return await screenAll(tools, job, root)
  } catch (error) {
    if (error instanceof ArchiveRefused) return refusal('archive_refused', error.message)
    throw error
  } finally {
    await rm(place, { recursive: true, force: true })
  }
}

async function screenAll(tools: ImportJobDeps, job: Job<ImportPayload>, root: string): Promise<BatchError | undefined> {
  const { batch } = job.payload
  const { folders, strays } = await listTaskFolders(root)
  if (folders.length === 0) return refusal('no_tasks', 'No folder in the archive has a task.toml.')
  if (folders.length > TASKS_MAX)
    return refusal('too_many_tasks', `It has ${folders.length} tasks; the most is ${TASKS_MAX}.`)

  await withDraft(tools, `import-${batch}`, async (draft) => {
    const names = new Set<string>()
    const listed: NewTask[] = []
    const stored: StoredTask[] = []
    for (const folder of folders) {
      job.signal.throwIfAborted()
      const screened = rejectDuplicateName(await screenTask(root, folder), names)
      listed.push(screened.task)
      if (screened.keep) stored.push(await draft.store.put(screened.keep.digest, screened.keep.source))
    }
    await draft.commit(stored)
    await job.write(async (tx) => {
      await rows.insertTasks(tx, batch, listed)
      await rows.setListed(tx, batch, listWarnings(strays))
    })
  })
  return undefined
}

/** Not retryable: the same archive would be refused again. */
const refusal = (code: string, message: string): BatchError => newBatchError(code, message, false)

const listWarnings = (strays: number): string[] =>
  strays === 0 ? [] : [`${strays} files or folders of the archive belong to no task and were left out.`]

/** Rejects the second of two tasks with the same name, because their results could not be told apart. */
function rejectDuplicateName(screened: ScreenedTask, names: Set<string>): ScreenedTask {
  const { task, name, keep } = screened
  if (!keep) return screened
  const isDouble = names.has(name)
  names.add(name)
  if (!isDouble) return screened
  const detail = `Another task of this archive is called ${name}.`
  return { name, keep: undefined, task: { ...task, digest: null, rejection: { reason: 'duplicate_name', detail } } }
}
