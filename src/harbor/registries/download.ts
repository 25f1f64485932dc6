import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, type Readable, Transform } from 'node:stream'
import { BlobDamaged, BlobMissing, type Digest } from '../../platform/blobs/blob.ts'
import { ArchiveRefused } from '../archive-refused.ts'
import { datasetDigest } from '../digest.ts'
import { inFolder } from '../folder-source.ts'
import type { FileSource } from '../source.ts'
import { inParallel } from './in-parallel.ts'
import { type Patience, patience, patiently } from './patience.ts'
import { type Fault, received, TaskRefused, TransferBroken } from './receive.ts'
import { AccessRefused, type OpenDataset, type Registry, type ResolvedDataset, type ResolvedTask } from './registry.ts'
import type { StoredTask, TaskStore } from './task-store.ts'

export type Progress = { done: number; total: number; bytes: number }

export type DownloadTools = {
  registry: Registry
  store: TaskStore
  /** A folder on a disk with room for a few unpacked tasks. What is left in it by a crash may be deleted. */
  scratch: string
  patience?: Patience
}

export type DownloadOptions = {
  signal: AbortSignal
  key?: string
  /** Tasks at once. */
  parallel?: number
  /** Of all archives together, as they are downloaded. */
  bytesMax?: number
  /** False: what is stored already comes again, and must be the same. */
  reuse?: boolean
  onProgress?: (progress: Progress) => void
  /** Sees the files of every task, once, in no order, while they are at hand; also of those that were stored. */
  inspect?: (task: KnownTask, source: FileSource) => Promise<void>
}

/** A task of which somebody has seen the bytes. */
type KnownTask = ResolvedTask & { digest: Digest }
/** Complete: opened and downloaded again, it must give these digests. */
export type DownloadedDataset = Omit<ResolvedDataset, 'tasks'> & {
  digest: Digest
  tasks: (KnownTask & { stored: StoredTask })[]
}

export type Downloaded =
  | { kind: 'downloaded'; dataset: DownloadedDataset }
  /** What came is not what was promised. Tasks that were right stay in the store; they are what they are. */
  | { kind: 'refused'; faults: Fault[] }
  | { kind: 'unauthorized'; detail: string }

const PARALLEL = 8
const BYTES_MAX = 20 * 1024 ** 3
/** Enough to see that something is wrong. */
const FAULTS_MAX = 20

/**
 * Brings every task of a dataset into the store and recomputes every digest. Tasks that are there are not downloaded
 * again, so a download that broke goes on where it was. Throws RegistryUnavailable when patience does not help.
 */
export async function downloadDataset(
  tools: DownloadTools,
  dataset: ResolvedDataset,
  options: DownloadOptions,
): Promise<Downloaded> {
  await mkdir(tools.scratch, { recursive: true, mode: 0o700 })
  const { signal, key } = options
  try {
    await using open = await tools.registry.open(dataset, key === undefined ? { signal } : { signal, key })
    return await downloadAll(tools, open, dataset, options)
  } catch (error) {
    if (error instanceof AccessRefused) return { kind: 'unauthorized', detail: error.message }
    throw error
  }
}

async function downloadAll(
  tools: DownloadTools,
  open: OpenDataset,
  dataset: ResolvedDataset,
  options: DownloadOptions,
): Promise<Downloaded> {
  const { tasks } = dataset
  const known = tasks.flatMap(({ digest }) => (digest === null ? [] : [digest]))
  const there = options.reuse === false ? new Map<Digest, StoredTask>() : await tools.store.find(known)
  const progress: Progress = { done: 0, total: tasks.length, bytes: 0 }
  const faults: Fault[] = []
  const finished = new Map<ResolvedTask, StoredTask>()
  await inParallel(tasks, options.parallel ?? PARALLEL, options.signal, async (task, signal) => {
    if (faults.length >= FAULTS_MAX) return
    const stored = task.digest === null ? undefined : there.get(task.digest)
    const work: Work = { ...tools, open, options, signal, progress }
    const result = stored ? await reused(work, task, stored) : await downloaded(work, task)
    if ('reason' in result) faults.push(result)
    else finished.set(task, result)
    progress.done++
    options.onProgress?.({ ...progress })
  })
  return faults.length > 0 ? { kind: 'refused', faults } : completed(dataset, finished)
}

type Work = DownloadTools & { open: OpenDataset; options: DownloadOptions; signal: AbortSignal; progress: Progress }

/** It was checked when it was stored; only who wants to look inside makes us unpack it. */
async function reused(work: Work, task: ResolvedTask, stored: StoredTask): Promise<StoredTask | Fault> {
  const { store, scratch, options } = work
  if (!options.inspect) return stored
  const folder = await mkdtemp(join(scratch, 'reading-'))
  try {
    const files = join(folder, task.name)
    const isWhole = await store.unpack(stored, files).then(() => true, isDamage)
    if (!isWhole) return await downloaded(work, task) // which repairs what is stored
    await options.inspect({ ...task, digest: stored.digest }, await inFolder(files))
    return stored
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** False for bytes that are no longer what they were; any other error is thrown. */
function isDamage(error: unknown): false {
  if (error instanceof BlobDamaged || error instanceof BlobMissing || error instanceof ArchiveRefused) return false
  throw error
}

async function downloaded(work: Work, task: ResolvedTask): Promise<StoredTask | Fault> {
  const bytesMax = work.options.bytesMax ?? BYTES_MAX
  if (work.progress.bytes > bytesMax) {
    return { task: null, reason: 'too_large', detail: `Its archives have more than ${bytesMax} bytes.` }
  }
  try {
    return await patiently(() => downloadOnce(work, task), work.patience ?? patience, work.signal)
  } catch (error) {
    if (error instanceof TaskRefused || error instanceof TransferBroken) return error.fault
    throw error
  }
}

async function downloadOnce({ open, store, scratch, options, signal, progress }: Work, task: ResolvedTask) {
  const fetchArchive = async () => counted(await open.fetch(task, signal), progress)
  return received(task, fetchArchive, scratch, async (digest, source) => {
    signal.throwIfAborted()
    await options.inspect?.({ ...task, digest }, source)
    return store.put(digest, source)
  })
}

function counted(archive: Readable, progress: Progress): Readable {
  const counter = new Transform({
    transform(chunk: Buffer, _, done) {
      progress.bytes += chunk.length
      done(null, chunk)
    },
  })
  pipeline(archive, counter, () => undefined) // an error reaches the reader through `counter`
  return counter
}

function completed(dataset: ResolvedDataset, finished: ReadonlyMap<ResolvedTask, StoredTask>): Downloaded {
  const tasks = dataset.tasks.map((task) => {
    const stored = finished.get(task)
    if (!stored) throw new Error(`${task.name} was neither downloaded nor refused.`)
    return { ...task, digest: stored.digest, stored }
  })
  const digest = datasetDigest(
    tasks.map((task) => task.digest),
    dataset.files,
  )
  if (dataset.digest === null || dataset.digest === digest) {
    return { kind: 'downloaded', dataset: { ...dataset, digest, tasks } }
  }
  const detail = `The dataset should be ${dataset.digest}; its tasks make it ${digest}.`
  return { kind: 'refused', faults: [{ task: null, reason: 'digest_mismatch', detail }] }
}
