import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Digest } from '../../platform/blobs/blob.ts'
import { unpack, unpackToMemory } from '../archive.ts'
import { ArchiveRefused } from '../archive-stream.ts'
import { computeTaskDigest } from '../digest.ts'
import { openFolderSource } from '../folder-source.ts'
import { createReport } from '../report.ts'
import type { FileSource } from '../source.ts'
import { TaskInvalid } from '../task.ts'
import { hashFiles, listTaskFiles } from '../task-files.ts'
import { formatTaskName, RegistryUnavailable, type ResolvedTask, TaskMissing } from './registry.ts'
import { toUnavailable } from './registry-request.ts'

/** Reason why a download is refused. `task` is null if it concerns the dataset as a whole. */
export type TaskFault = {
  task: string | null
  reason: 'missing' | 'archive_refused' | 'not_a_task' | 'digest_mismatch' | 'too_large'
  detail: string
}

/** Thrown for a fault that a retry cannot fix. */
export class TaskRefused extends Error {
  override name = 'TaskRefused'
  readonly fault: TaskFault

  constructor(fault: TaskFault) {
    super(fault.detail)
    this.fault = fault
  }
}

/** Thrown for an incomplete archive. `fault` is reported for the task if retries fail too. */
export class TransferBroken extends RegistryUnavailable {
  readonly fault: TaskFault

  constructor(fault: TaskFault) {
    super(fault.detail)
    this.fault = fault
  }
}

/** Timeout for downloading and unpacking, which happen at the same time. */
export const DOWNLOAD_TIMEOUT_MS = 600_000
const UNPACK_LIMITS = { timeMs: DOWNLOAD_TIMEOUT_MS }
/** Refusals that a retry may fix. */
const TRANSIENT_REASONS: readonly string[] = ['damaged', 'too_slow']

type UseSource<Result> = (digest: Digest, source: FileSource) => Promise<Result>

/**
 * Fetches an archive and runs `use` on its files and their digest. The files are in memory; a large archive is fetched
 * again and unpacked into a temporary folder. Throws TaskRefused, or RegistryUnavailable for faults that a retry may fix.
 */
export async function receiveTask<Result>(
  task: ResolvedTask,
  fetchArchive: () => Promise<Readable>,
  scratch: string,
  use: UseSource<Result>,
): Promise<Result> {
  const throwTaskError = (error: unknown): never => {
    throw toTaskError(task, error)
  }
  const inMemory = await unpackToMemory(await fetchArchive().catch(throwTaskError), task.name, UNPACK_LIMITS).catch(
    throwTaskError,
  )
  if (inMemory) return useSource(task, inMemory, use)
  const folder = await mkdtemp(join(scratch, 'receiving-'))
  try {
    const files = join(folder, task.name)
    await unpack(await fetchArchive().catch(throwTaskError), files, UNPACK_LIMITS).catch(throwTaskError)
    return await useSource(task, await openFolderSource(files), use)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function useSource<Result>(task: ResolvedTask, source: FileSource, use: UseSource<Result>): Promise<Result> {
  const digest = await computePackageDigest(source).catch((error: unknown) => {
    throw toTaskError(task, error)
  })
  if (task.digest !== null && digest !== task.digest) throw toDigestMismatch(task, digest)
  return use(digest, source)
}

async function computePackageDigest(source: FileSource): Promise<Digest> {
  const report = createReport()
  const listed = await listTaskFiles(source, report, { includeIgnored: true })
  report.throwIfRefused()
  return computeTaskDigest(await hashFiles(source, listed))
}

/** Converts an error to TaskRefused, or to RegistryUnavailable if a retry may help. */
function toTaskError(task: ResolvedTask, error: unknown): unknown {
  const fault = (reason: TaskFault['reason'], detail: string): TaskFault => ({
    task: formatTaskName(task),
    reason,
    detail,
  })
  if (error instanceof TaskMissing) return new TaskRefused(fault('missing', error.message))
  if (error instanceof TaskInvalid) return new TaskRefused(fault('not_a_task', error.message))
  if (!(error instanceof ArchiveRefused)) return toUnavailable(error)
  const refused = fault('archive_refused', error.message)
  return TRANSIENT_REASONS.includes(error.reason) ? new TransferBroken(refused) : new TaskRefused(refused)
}

const toDigestMismatch = (task: ResolvedTask, digest: string) =>
  new TaskRefused({
    task: formatTaskName(task),
    reason: 'digest_mismatch',
    detail: `Digest mismatch: expected ${task.digest}, received ${digest}.`,
  })
