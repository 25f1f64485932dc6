import { mkdtemp, readdir, readlink, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { findProcess, isAlive } from '../../sandboxes/kernel/process-life.ts'
import { removeTree } from '../../sandboxes/local/remove-tree.ts'

const DRAFT = /^\.draft-(\d+)-(\d+)-/
const PAUSE_MS = 200

const ownMark = async (): Promise<string> => `${process.pid}-${(await findProcess(process.pid))?.startTime ?? '0'}`

const isOfTheLiving = (pid: string, startTime: string): Promise<boolean> => isAlive({ pid: Number(pid), startTime })

/** A folder whose name tells whose it is. */
export async function openDraft(parent: string): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(parent, `.draft-${await ownMark()}-`))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes those whose process is dead. */
export async function sweepDrafts(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, pid, startTime] = DRAFT.exec(name) ?? []
    if (pid === undefined || startTime === undefined || (await isOfTheLiving(pid, startTime))) continue
    await removeTree(join(parent, name))
  }
}

/**
 * Does the work while nobody else does it for the same place, in this process or in another. It only saves work: should
 * two ever be at it, the one that comes last finds that there is nothing left to do.
 */
export async function withTurn(place: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  const path = `${place}.lock`
  while (!(await take(path))) await wait(PAUSE_MS, undefined, { signal })
  try {
    await work()
  } finally {
    await rm(path, { force: true })
  }
}

/** A link that leads nowhere and tells whose turn it is: it is made, with all it says, in one instant. */
async function take(path: string): Promise<boolean> {
  try {
    await symlink(await ownMark(), path)
    return true
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  const [pid = '', startTime = ''] = (await readlink(path).catch(() => '')).split('-')
  if (pid !== '' && !(await isOfTheLiving(pid, startTime))) await rm(path, { force: true })
  return false
}
