import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Digest } from '../../platform/blobs/blob.ts'
import { unpack, unpackToMemory } from '../archive.ts'
import { ArchiveRefused } from '../archive-refused.ts'
import { taskDigest } from '../digest.ts'
import { inFolder } from '../folder-source.ts'
import { newReport } from '../report.ts'
import type { FileSource } from '../source.ts'
import { TaskInvalid } from '../task.ts'
import { hashed, listTaskFiles } from '../task-files.ts'
import { asUnavailable } from './ask.ts'
import { RegistryUnavailable, type ResolvedTask, TaskMissing, taskName } from './registry.ts'

/** Why a task is not taken. The task is null when it is the dataset as a whole. */
export type Fault = {
  task: string | null
  reason: 'missing' | 'archive_refused' | 'not_a_task' | 'digest_mismatch' | 'too_large'
  detail: string
}

/** Thrown for what trying again does not change. */
export class TaskRefused extends Error {
  override name = 'TaskRefused'
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.detail)
    this.fault = fault
  }
}

/** An archive that ends too soon may be whole the next time. If it never is, this is what is wrong with the task. */
export class TransferBroken extends RegistryUnavailable {
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.detail)
    this.fault = fault
  }
}

/** Downloading is part of unpacking: this is how long both may take. */
export const DOWNLOAD_TIMEOUT_MS = 600_000
const PATIENT = { timeMs: DOWNLOAD_TIMEOUT_MS }
/** What another try may mend. */
const PASSING: readonly string[] = ['damaged', 'too_slow']

type Use<Result> = (digest: Digest, source: FileSource) => Promise<Result>

/**
 * Runs `use` on the files of an archive: in memory, or, when they are too large for that, of another copy of it in a
 * folder that goes afterwards. The digest is of exactly these files. Throws TaskRefused, or RegistryUnavailable for what
 * another try may mend.
 */
export async function received<Result>(
  task: ResolvedTask,
  fetchArchive: () => Promise<Readable>,
  scratch: string,
  use: Use<Result>,
): Promise<Result> {
  const explain = (error: unknown): never => {
    throw explained(task, error)
  }
  const small = await unpackToMemory(await fetchArchive().catch(explain), task.name, PATIENT).catch(explain)
  if (small) return useSource(task, small, use)
  const folder = await mkdtemp(join(scratch, 'receiving-'))
  try {
    const files = join(folder, task.name)
    await unpack(await fetchArchive().catch(explain), files, PATIENT).catch(explain)
    return await useSource(task, await inFolder(files), use)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function useSource<Result>(task: ResolvedTask, source: FileSource, use: Use<Result>): Promise<Result> {
  const digest = await digestOf(source).catch((error: unknown) => {
    throw explained(task, error)
  })
  if (task.digest !== null && digest !== task.digest) throw mismatch(task, digest)
  return use(digest, source)
}

/** Of a package: all that is there counts. */
async function digestOf(source: FileSource): Promise<Digest> {
  const report = newReport()
  const listed = await listTaskFiles(source, true, report)
  report.check()
  return taskDigest(await hashed(source, listed))
}

/** What went wrong, in our words. */
function explained(task: ResolvedTask, error: unknown): unknown {
  const fault = (reason: Fault['reason'], detail: string): Fault => ({ task: taskName(task), reason, detail })
  if (error instanceof TaskMissing) return new TaskRefused(fault('missing', error.message))
  if (error instanceof TaskInvalid) return new TaskRefused(fault('not_a_task', error.message))
  if (!(error instanceof ArchiveRefused)) return asUnavailable(error)
  const refused = fault('archive_refused', error.message)
  return PASSING.includes(error.reason) ? new TransferBroken(refused) : new TaskRefused(refused)
}

const mismatch = (task: ResolvedTask, digest: string) =>
  new TaskRefused({
    task: taskName(task),
    reason: 'digest_mismatch',
    detail: `It should be ${task.digest}; what came is ${digest}.`,
  })
