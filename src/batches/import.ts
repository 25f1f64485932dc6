import type { Dirent } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { findAvailableSandbox } from '../catalog/capabilities.ts'
import { withDraft } from '../contents/contents.ts'
import { unpack } from '../harbor/archive.ts'
import { ArchiveRefused } from '../harbor/archive-stream.ts'
import { CONFIG_FILE } from '../harbor/config.ts'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import { type Blobs, type Digest, hashOwned, isDigest, openOwned, putOwned } from '../platform/blobs/blob.ts'
import { DISK_FULL, isDiskError } from '../platform/data-folder.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { derivedId } from '../platform/ids.ts'
import {
  defineJobHandler,
  defineJobType,
  enqueue,
  type Job,
  type JobHandler,
  toWorkspaceJobOptions,
} from '../platform/jobs/jobs.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import type { NewTask } from '../taskgen/assembly/screen-folder.ts'
import { type ScreenedTask, screenTask } from '../taskgen/assembly/screen-task.ts'
import {
  type BatchRow,
  beginDiscovery,
  failBatch,
  findOpenBatch,
  lockOpenBatch,
  markRunning,
  newBatchError,
  readBatchWorkspace,
} from '../taskgen/pipeline/batch-state.ts'
import { type BatchError, TASKS_MAX } from '../taskgen/schema.ts'
import * as rows from './sql.ts'
import { endIfDone, enqueueValidations, markWaitingForSandbox } from './validate.ts'

type ImportJobDeps = {
  db: Db
  blobs: Blobs
  draftsFolder: string
  /** Time that a batch waits before it looks for a sandbox again. */
  sandboxWaitMs: number
  /** Hosts of private networks that the operator allows as registries of images. */
  buildHosts?: readonly AllowedHost[]
}

const ImportPayload = z.strictObject({ batch: z.uuid() })
type ImportPayload = z.infer<typeof ImportPayload>

const importJobType = defineJobType({ type: 'batch.import', payload: ImportPayload, priority: 10 })

export const toImportJobId = (batch: string): string => derivedId('batch', batch)

export async function enqueueImport(tx: Db, batch: string, runAt?: Date): Promise<string> {
  const jobOptions = toWorkspaceJobOptions(await readBatchWorkspace(tx, batch))
  return enqueue(tx, importJobType, { batch }, { id: toImportJobId(batch), runAt, ...jobOptions })
}

export const importJob = (deps: ImportJobDeps): JobHandler<ImportPayload> =>
  defineJobHandler(importJobType, {
    run: (job) => runImport(deps, job),
    onGivenUp: (tx, { batch }, reason) => failBatch(tx, batch, newBatchError('internal_error', reason, true)),
  })

/** Lists the tasks of the archive and enqueues a validation for each. Stored steps are not repeated. */
async function runImport(deps: ImportJobDeps, job: Job<ImportPayload>): Promise<void> {
  const { batch } = job.payload
  const row = await findOpenBatch(deps.db, batch)
  if (!row) return
  const refusal = row.step === 'unpack' ? await unpackOrDefer(deps, job, row) : undefined
  if (refusal === 'deferred') return
  if (refusal) return job.finish((tx) => failBatch(tx, batch, refusal))

  const sandbox = await findAvailableSandbox(deps.db)
  await job.finish(async (tx) => {
    if (!(await lockOpenBatch(tx, batch))) return
    const tasks = await rows.listValidating(tx, batch)
    if (tasks.length > 0 && sandbox === undefined) {
      const until = await markWaitingForSandbox(tx, batch, deps.sandboxWaitMs)
      await enqueueImport(tx, batch, until)
      return
    }
    await markRunning(tx, batch)
    if (sandbox !== undefined) await enqueueValidations(tx, { sandbox, batch, tasks })
    await endIfDone(tx, batch)
  })
}

/** Unpacks the archive. If the disk is full, enqueues the job again for later. */
async function unpackOrDefer(
  deps: ImportJobDeps,
  job: Job<ImportPayload>,
  row: BatchRow,
): Promise<BatchError | 'deferred' | undefined> {
  try {
    return await unpackAndListTasks(deps, job, row)
  } catch (error) {
    job.signal.throwIfAborted()
    if (!isDiskError(error)) throw error
  }
  await job.finish(async (tx) => {
    if (!(await lockOpenBatch(tx, row.id))) return
    await enqueueImport(tx, row.id, await markWaitingForSandbox(tx, row.id, deps.sandboxWaitMs, DISK_FULL))
  })
  return 'deferred'
}

const UNPACK_LIMITS = { timeMs: 600_000 }

/** Unpacks the archive, and screens and lists its tasks. Returns why the archive is refused, if it is. */
async function unpackAndListTasks(
  deps: ImportJobDeps,
  job: Job<ImportPayload>,
  { id, archive }: BatchRow,
): Promise<BatchError | undefined> {
  await beginDiscovery(deps.db, id)
  await mkdir(deps.draftsFolder, { recursive: true, mode: 0o700 })
  const unpackFolder = await mkdtemp(join(deps.draftsFolder, 'import-'))
  try {
    const root = join(unpackFolder, 'task')
    await unpack(await openOwned(deps.blobs, blobOwner(id), archive ?? ''), root, UNPACK_LIMITS)
    return await screenTasks(deps, job, root)
  } catch (error) {
    if (error instanceof ArchiveRefused) return toRefusal('archive_refused', error.message)
    throw error
  } finally {
    await rm(unpackFolder, { recursive: true, force: true })
  }
}

/** Screens every task of an unpacked archive and stores the accepted ones. Returns why the archive is refused, if it is. */
async function screenTasks(
  deps: ImportJobDeps,
  job: Job<ImportPayload>,
  root: string,
): Promise<BatchError | undefined> {
  const { batch } = job.payload
  const { folders, strays } = await listTaskFolders(root)
  if (folders.length === 0) return toRefusal('no_tasks', 'No folder in the archive has a task.toml.')
  if (folders.length > TASKS_MAX)
    return toRefusal('too_many_tasks', `The archive has ${folders.length} tasks; the maximum is ${TASKS_MAX}.`)

  await withDraft(deps, `import-${batch}`, async (draft) => {
    const names = new Set<string>()
    const listed: NewTask[] = []
    const stored: StoredTask[] = []
    for (const folder of folders) {
      job.signal.throwIfAborted()
      const screened = rejectDuplicateName(await screenTask(root, folder, deps.buildHosts), names)
      listed.push(screened.task)
      if (screened.accepted) stored.push(await draft.store.put(screened.accepted.digest, screened.accepted.source))
    }
    await draft.commit(stored)
    await job.write(async (tx) => {
      await rows.insertTasks(tx, batch, listed)
      await rows.setListed(tx, batch, listWarnings(strays))
    })
  })
  return undefined
}

/** Returns the error of a refused archive. A retry would not help, because the same archive would be refused again. */
const toRefusal = (code: string, message: string): BatchError => newBatchError(code, message, false)

const listWarnings = (strays: number): string[] =>
  strays === 0 ? [] : [`${strays} files or folders of the archive belong to no task and were left out.`]

/** Rejects the second of two tasks with the same name, because their results could not be told apart. */
function rejectDuplicateName(screened: ScreenedTask, names: Set<string>): ScreenedTask {
  const { task, name, accepted } = screened
  if (!accepted) return screened
  const isDuplicate = names.has(name)
  names.add(name)
  if (!isDuplicate) return screened
  const detail = `Another task of this archive is called ${name}.`
  return { name, accepted: undefined, task: { ...task, digest: null, rejection: { reason: 'duplicate_name', detail } } }
}

/** A task folder relative to the archive, and its id in the batch. */
type TaskFolder = { id: string; path: string }
/** Task folders of an archive. `strays` is the number of files and folders that belong to no task. */
type TaskFolders = { folders: TaskFolder[]; strays: number }

/** Maximum depth of a task folder. `tasks/<group>/<task>/` is the deepest layout in use. */
const TASK_FOLDER_DEPTH_MAX = 3
const ID_LENGTH_MAX = 80

/** Lists every folder with a task.toml that is not inside another task. */
async function listTaskFolders(root: string): Promise<TaskFolders> {
  const listing: ArchiveListing = { paths: [], strays: 0 }
  await collectTaskFolders(root, '', listing)
  return { folders: assignIds(listing.paths.sort()), strays: listing.strays }
}

type ArchiveListing = { paths: string[]; strays: number }

async function collectTaskFolders(root: string, path: string, listing: ArchiveListing): Promise<void> {
  const entries: Dirent[] = await readdir(join(root, path), { withFileTypes: true })
  if (entries.some((entry) => entry.name === CONFIG_FILE && entry.isFile())) {
    listing.paths.push(path)
    return
  }
  const folders = entries.filter((entry) => entry.isDirectory())
  listing.strays += entries.length - folders.length
  const isTooDeep = path.split('/').length >= TASK_FOLDER_DEPTH_MAX && path !== ''
  if (isTooDeep) listing.strays += folders.length
  else for (const { name } of folders) await collectTaskFolders(root, path === '' ? name : `${path}/${name}`, listing)
}

/** Gives each folder a unique, URL-safe id. */
function assignIds(paths: string[]): TaskFolder[] {
  const taken = new Set<string>()
  return paths.map((path) => {
    const wanted = toTaskId(basename(path))
    let id = wanted
    for (let number = 2; taken.has(id); number++) id = `${wanted}-${number}`
    taken.add(id)
    return { id, path }
  })
}

const toTaskId = (name: string): string => {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]+/g, '-').replace(/^[._-]+/, '')
  return plain.slice(0, ID_LENGTH_MAX) || 'task'
}

type ArchiveDeps = { db: Db; blobs: Blobs }

const blobOwner = (batch: string): string => `batch ${batch}`

/**
 * Stores the archive where every worker can read it. The row is written first: a row without its blob is swept later,
 * but a blob without a row would leak.
 */
export async function storeArchive({ db, blobs }: ArchiveDeps, batch: string, path: string): Promise<Digest> {
  const digest = await hashOwned(blobOwner(batch), path)
  await rows.upsertArchive(db, digest)
  await putOwned(blobs, blobOwner(batch), path, digest)
  return digest
}

/** Maximum number of archives that one sweep removes. */
const SWEPT_ARCHIVES_MAX = 1000
/** Number of days for which a canceled or failed batch can be resumed. */
const RESUMABLE_DAYS = 7

/** Removes archives that no batch needs. */
export async function sweepArchives({ db, blobs }: ArchiveDeps): Promise<void> {
  await rows.dropArchives(db, RESUMABLE_DAYS)
  for (const { digest } of await rows.listUnusedArchives(db, SWEPT_ARCHIVES_MAX)) {
    await transact(db, async (tx) => {
      if ((await rows.deleteUnusedArchive(tx, digest)) && isDigest(digest)) await blobs.remove(digest)
    })
  }
}
