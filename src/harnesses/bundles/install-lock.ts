import { mkdtemp, readdir, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { findProcess, isAlive } from '../../sandboxes/kernel/process-life.ts'
import { removeTree } from '../../sandboxes/local/remove-tree.ts'

const DRAFT = /^\.draft-(\d+)-(\d+)-/
const PAUSE_MS = 200

const processMark = async (): Promise<string> => `${process.pid}-${(await findProcess(process.pid))?.startTime ?? '0'}`

const isProcessAlive = (pid: string, startTime: string): Promise<boolean> => isAlive({ pid: Number(pid), startTime })

/** Creates a temporary folder whose name identifies this process. */
export async function createDraft(parent: string): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(parent, `.draft-${await processMark()}-`))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes drafts of processes that no longer exist. */
export async function sweepDrafts(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, pid, startTime] = DRAFT.exec(name) ?? []
    if (pid === undefined || startTime === undefined || (await isProcessAlive(pid, startTime))) continue
    await removeTree(join(parent, name))
  }
}

/**
 * Runs the work under a lock that is shared by all processes on this machine. The lock only avoids duplicate work: if two
 * processes ever install at the same time, the second rename fails harmlessly.
 */
export async function withInstallLock(target: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  const path = `${target}.lock`
  while (!(await acquireLock(path))) await wait(PAUSE_MS, undefined, { signal })
  try {
    await work()
  } finally {
    await rm(path, { force: true })
  }
}

/** Tries to create the lock: a dangling symbolic link that names its owner, because a link is created atomically. */
async function acquireLock(path: string): Promise<boolean> {
  try {
    await symlink(await processMark(), path)
    return true
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  const [pid = '', startTime = ''] = (await readlink(path).catch(() => '')).split('-')
  if (pid !== '' && !(await isProcessAlive(pid, startTime))) await rm(path, { force: true })
  return false
}
