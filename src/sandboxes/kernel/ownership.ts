import { mkdir, mkdtemp, readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { removeTree } from './run-program.ts'

/** Start time on systems without /proc, where it is unknown which processes are alive. */
const UNKNOWN_START_TIME = '0'

/** Returns a name prefix that identifies this process, so that files of a dead process can be removed. */
export async function buildOwnedPrefix(kind: string): Promise<string> {
  const mark = await findProcess(process.pid)
  return `${kind}-${process.pid}-${mark?.startTime ?? UNKNOWN_START_TIME}-`
}

/** Lists the entries of a folder that belong to dead processes. */
export async function listOrphans(folder: string, kind: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const isDead = await Promise.all(names.map(async (name) => !(await mayBeAlive(name, kind))))
  return names.filter((_, index) => isDead[index])
}

/** The rest of a name after its kind: process id and start time, as `buildOwnedPrefix` writes them. */
const OWNER_IN_NAME = /^-(\d+)-(\d+)-/

async function mayBeAlive(name: string, kind: string): Promise<boolean> {
  const isOfKind = name.startsWith(`${kind}-`)
  const [, pid, startTime] = (isOfKind ? OWNER_IN_NAME.exec(name.slice(kind.length)) : null) ?? []
  const isOwnerUnknown = pid === undefined || startTime === undefined || startTime === UNKNOWN_START_TIME
  if (isOwnerUnknown) return true
  return isAlive({ pid: Number(pid), startTime })
}

const SAFE_ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/

/** Throws unless the id of a sandbox is safe as a file name and as the name of a container. */
export function requireSafeId(id: string): void {
  if (!SAFE_ID.test(id)) throw new Error(`Invalid sandbox id: ${JSON.stringify(id)}`)
}

/** Labels of containers, networks, volumes and images, which identify them after a crash. */
export const LABEL = {
  installation: 'assay.installation',
  role: 'assay.role',
  sandbox: 'assay.sandbox',
  network: 'assay.group',
  owner: 'assay.owner',
  deadline: 'assay.deadline',
} as const

/**
 * Role of an object. A `draft` is a container that becomes an image; a `relay` carries a sandbox's ports; a `group` is a
 * sandbox network.
 */
export type EngineObjectRole = 'sandbox' | 'relay' | 'draft' | 'network' | 'snapshot'

/** Time after the deadline in which the owner of a sandbox still collects files and removes it. */
const GRACE_MS = 15 * 60_000

/**
 * Returns an id of this process that is unique across restarts and machines: boot id of the machine, process namespace,
 * process id, and start time of the process.
 */
export async function readOwnerId(): Promise<string> {
  const found = await findProcess(process.pid)
  if (found === undefined) throw new Error('This process is not listed in /proc. Mount /proc.')
  return [await readMachineId(), found.pid, found.startTime].join('/')
}

async function readMachineId(): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  return `${boot.trim()}/${await readlink('/proc/self/ns/pid')}`
}

/** Ids of sandboxes and networks of this process that it could not remove, for instance because their engine was gone. */
const abandonedIds = new Set<string>()

/** Lets a later `reap` remove a sandbox of this process, if it still exists then. */
export const abandon = (sandboxId: string): void => void abandonedIds.add(sandboxId)

/** Removes a sandbox or a network, or lets a later `reap` do so if that fails. */
export async function removeOrAbandon(id: string, remove: () => Promise<void>): Promise<void> {
  try {
    await remove()
  } catch (error) {
    abandon(id)
    throw error
  }
}

/**
 * Reports whether the owner of an object has died, or is this process and could not remove it. For a process on another
 * machine only the deadline is known.
 */
export async function isAbandoned(labels: Record<string, string>): Promise<boolean> {
  const owner = labels[LABEL.owner] ?? ''
  const isOverdue = Date.now() > Number(labels[LABEL.deadline] ?? Infinity) + GRACE_MS
  if (owner === (await readOwnerId())) return abandonedIds.has(labels[LABEL.sandbox] ?? labels[LABEL.network] ?? '')
  const [boot, namespace, pid = '', startTime = ''] = owner.split('/')
  if (`${boot}/${namespace}` !== (await readMachineId())) return isOverdue
  return isOverdue || !(await isAlive({ pid: Number(pid), startTime }))
}

/** A process that cannot be mistaken for a later one with the same number. */
export type ProcessMark = { pid: number; startTime: string }

/** Position of the start time in /proc/<pid>/stat after the process name, whose field is the second of all. */
const START_TIME_FIELD = 22 - 3

/** Finds a process by its id. Returns undefined if it does not exist or is a zombie. */
export async function findProcess(pid: number): Promise<ProcessMark | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  // The process name is in parentheses and may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, startTime] = [fields[0], fields[START_TIME_FIELD]]
  if (startTime === undefined || state === 'Z' || state === 'X') return undefined
  return { pid, startTime }
}

/** Reports whether the same process still runs. */
export async function isAlive(mark: ProcessMark): Promise<boolean> {
  return (await findProcess(mark.pid))?.startTime === mark.startTime
}

export async function killProcess(mark: ProcessMark): Promise<void> {
  if (await isAlive(mark)) sendKill(mark.pid)
}

const PROCESS_END_TIMEOUT_MS = 10_000

/** Waits until a killed process has ended, which is usually immediate. Returns false if a hanging disk delays it too long. */
export async function waitForEnd(mark: ProcessMark): Promise<boolean> {
  const deadline = performance.now() + PROCESS_END_TIMEOUT_MS
  for (let pauseMs = 1; performance.now() < deadline; pauseMs = Math.min(pauseMs * 2, 50)) {
    if (!(await isAlive(mark))) return true
    await wait(pauseMs)
  }
  return false
}

/** Sends SIGKILL. A no-op if the process has ended. */
export function sendKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // the process has already ended
  }
}

const SCRATCH_KIND = '.trial'

/** Opens a temporary folder whose name identifies this process, so that it is removed even if the process dies. */
export async function openScratchFolder(parent: string): Promise<AsyncDisposable & { path: string }> {
  await mkdir(parent, { recursive: true })
  const path = await mkdtemp(join(parent, await buildOwnedPrefix(SCRATCH_KIND)))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes the folders of dead processes. Returns their number. */
export async function reapScratchFolders(parent: string): Promise<number> {
  const names = await listOrphans(parent, SCRATCH_KIND)
  for (const name of names) await removeTree(join(parent, name))
  return names.length
}
