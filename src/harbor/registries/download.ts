import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, type Readable, Transform } from 'node:stream'
import { BlobDamaged, BlobMissing, type Digest } from '../../platform/blobs/blob.ts'
import { runInParallel } from '../../platform/concurrency.ts'
import { ArchiveRefused } from '../archive-stream.ts'
import { computeDatasetDigest } from '../digest.ts'
import { openFolderSource } from '../folder-source.ts'
import type { FileSource } from '../source.ts'
import { receiveTask, type TaskFault, TaskRefused, TransferBroken } from './receive.ts'
import { AccessRefused, type OpenDataset, type Registry, type ResolvedDataset, type ResolvedTask } from './registry.ts'
import { type RetryTimer, retryTimer, retryUnavailable } from './registry-request.ts'
import type { StoredTask, TaskStore } from './task-store.ts'

export type DownloadProgress = { done: number; total: number; bytes: number }

type DownloadDeps = {
  registry: Registry
  store: TaskStore
  /** Temporary folder with space for a few unpacked tasks. Files that remain after a crash may be deleted. */
  scratch: string
  retryTimer?: RetryTimer
}

export type DownloadOptions = {
  signal: AbortSignal
  key?: string | undefined
  /** Number of tasks that are downloaded concurrently. */
  parallel?: number
  /** Limit for the compressed size of all archives together. */
  bytesMax?: number
  onProgress?: (progress: DownloadProgress) => void
  /** Called once with the files of every task, in any order, including tasks that were already stored. */
  inspect?: (task: VerifiedTask, source: FileSource) => Promise<void>
}

/** A task whose digest has been verified. */
type VerifiedTask = ResolvedTask & { digest: Digest }
/** A dataset with all digests. A later download must have the same digests. */
export type DownloadedDataset = Omit<ResolvedDataset, 'tasks'> & {
  digest: Digest
  tasks: (VerifiedTask & { stored: StoredTask })[]
}

export type DownloadOutcome =
  | { kind: 'downloaded'; dataset: DownloadedDataset }
  /** Some content does not match the dataset. Tasks that were valid remain in the store. */
  | { kind: 'refused'; faults: TaskFault[] }
  | { kind: 'unauthorized'; detail: string }

const PARALLEL_DEFAULT = 8
const BYTES_MAX_DEFAULT = 20 * 1024 ** 3
/** The download stops after this many faults. */
const FAULTS_MAX = 20

/**
 * Downloads every task of a dataset into the store and recomputes every digest. Stored tasks are not downloaded again, so
 * an interrupted download can be resumed. Throws RegistryUnavailable when retries fail.
 */
export async function downloadDataset(
  deps: DownloadDeps,
  dataset: ResolvedDataset,
  options: DownloadOptions,
): Promise<DownloadOutcome> {
  await mkdir(deps.scratch, { recursive: true, mode: 0o700 })
  const { signal, key } = options
  try {
    await using openDataset = await deps.registry.open(dataset, { signal, key })
    return await downloadAll(deps, openDataset, dataset, options)
  } catch (error) {
    if (error instanceof AccessRefused) return { kind: 'unauthorized', detail: error.message }
    throw error
  }
}

async function downloadAll(
  deps: DownloadDeps,
  openDataset: OpenDataset,
  dataset: ResolvedDataset,
  options: DownloadOptions,
): Promise<DownloadOutcome> {
  const { tasks } = dataset
  const knownDigests = tasks.flatMap(({ digest }) => (digest === null ? [] : [digest]))
  const alreadyStored = await deps.store.find(knownDigests)
  const progress: DownloadProgress = { done: 0, total: tasks.length, bytes: 0 }
  const faults: TaskFault[] = []
  const finished = new Map<ResolvedTask, StoredTask>()
  await runInParallel(tasks, options.parallel ?? PARALLEL_DEFAULT, options.signal, async (task, signal) => {
    if (faults.length >= FAULTS_MAX) return
    const stored = task.digest === null ? undefined : alreadyStored.get(task.digest)
    const context: DownloadContext = { ...deps, openDataset, options, signal, progress }
    const result = stored ? await reuseTask(context, task, stored) : await downloadTask(context, task)
    if ('reason' in result) faults.push(result)
    else finished.set(task, result)
    progress.done++
    options.onProgress?.({ ...progress })
  })
  return faults.length > 0 ? { kind: 'refused', faults } : completeDownload(dataset, finished)
}

type DownloadContext = DownloadDeps & {
  openDataset: OpenDataset
  options: DownloadOptions
  signal: AbortSignal
  progress: DownloadProgress
}

/** Uses a stored task, which was verified when it was stored. Unpacks it only for `inspect`. */
async function reuseTask(
  context: DownloadContext,
  task: ResolvedTask,
  stored: StoredTask,
): Promise<StoredTask | TaskFault> {
  const { store, scratch, options } = context
  if (!options.inspect) return stored
  const folder = await mkdtemp(join(scratch, 'reading-'))
  try {
    const files = join(folder, task.name)
    const isIntact = await store.unpack(stored, files).then(() => true, rethrowUnlessDamaged)
    if (!isIntact) return await downloadTask(context, task) // replaces the damaged copy
    await options.inspect({ ...task, digest: stored.digest }, await openFolderSource(files))
    return stored
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Returns false for a damaged or missing archive; rethrows any other error. */
function rethrowUnlessDamaged(error: unknown): false {
  if (error instanceof BlobDamaged || error instanceof BlobMissing || error instanceof ArchiveRefused) return false
  throw error
}

async function downloadTask(context: DownloadContext, task: ResolvedTask): Promise<StoredTask | TaskFault> {
  const bytesMax = context.options.bytesMax ?? BYTES_MAX_DEFAULT
  if (context.progress.bytes > bytesMax) {
    return { task: null, reason: 'too_large', detail: `The archives of the dataset have more than ${bytesMax} bytes.` }
  }
  try {
    return await retryUnavailable(() => downloadOnce(context, task), context.retryTimer ?? retryTimer, context.signal)
  } catch (error) {
    if (error instanceof TaskRefused || error instanceof TransferBroken) return error.fault
    throw error
  }
}

async function downloadOnce(
  { openDataset, store, scratch, options, signal, progress }: DownloadContext,
  task: ResolvedTask,
) {
  const fetchArchive = async () => countBytes(await openDataset.fetch(task, signal), progress)
  return receiveTask(task, fetchArchive, scratch, async (digest, source) => {
    signal.throwIfAborted()
    await options.inspect?.({ ...task, digest }, source)
    return store.put(digest, source)
  })
}

function countBytes(archive: Readable, progress: DownloadProgress): Readable {
  const counter = new Transform({
    transform(chunk: Buffer, _, done) {
      progress.bytes += chunk.length
      done(null, chunk)
    },
  })
  pipeline(archive, counter, () => undefined) // an error reaches the reader through `counter`
  return counter
}

function completeDownload(dataset: ResolvedDataset, finished: ReadonlyMap<ResolvedTask, StoredTask>): DownloadOutcome {
  const tasks = dataset.tasks.map((task) => {
    const stored = finished.get(task)
    if (!stored) throw new Error(`${task.name} was neither downloaded nor refused.`)
    return { ...task, digest: stored.digest, stored }
  })
  const digest = computeDatasetDigest(
    tasks.map((task) => task.digest),
    dataset.files,
  )
  if (dataset.digest === null || dataset.digest === digest) {
    return { kind: 'downloaded', dataset: { ...dataset, digest, tasks } }
  }
  const detail = `Digest mismatch: expected ${dataset.digest}, computed ${digest} from the tasks.`
  return { kind: 'refused', faults: [{ task: null, reason: 'digest_mismatch', detail }] }
}
