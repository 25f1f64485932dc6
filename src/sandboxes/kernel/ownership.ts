import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'

/** Start time on systems without /proc, where it is unknown which processes are alive. */
const UNKNOWN = '0'

/** Returns a name prefix that identifies this process, so that files of a dead process can be removed. */
export async function ownedPrefix(kind: string): Promise<string> {
  const mark = await findProcess(process.pid)
  return `${kind}-${process.pid}-${mark?.startTime ?? UNKNOWN}-`
}

/** Lists the entries of a folder that belong to dead processes. */
export async function listOrphans(folder: string, kind: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const dead = await Promise.all(names.map(async (name) => !(await mayLive(name, kind))))
  return names.filter((_, place) => dead[place])
}

async function mayLive(name: string, kind: string): Promise<boolean> {
  const [, pid, startTime] = (name.startsWith(`${kind}-`) && /^-(\d+)-(\d+)-/.exec(name.slice(kind.length))) || []
  if (pid === undefined || startTime === undefined || startTime === UNKNOWN) return true
  return isAlive({ pid: Number(pid), startTime })
}

/** Labels of containers, networks, volumes and images, which identify them after a crash. */
export const LABEL = {
  installation: 'assay.installation',
  role: 'assay.role',
  sandbox: 'assay.sandbox',
  group: 'assay.group',
  owner: 'assay.owner',
  deadline: 'assay.deadline',
} as const

/** A `draft` is a container in which an image is made; a `relay` carries the ports of a sandbox. */
export type EngineObjectRole = 'sandbox' | 'relay' | 'draft' | 'group' | 'snapshot'

/** Time after the deadline in which the owner of a sandbox still collects files and removes it. */
const GRACE_MS = 15 * 60_000

/**
 * Identifies this process across restarts and machines: boot time of the machine, process namespace, process id, and
 * start time of the process.
 */
export async function ownerMark(): Promise<string> {
  const found = await findProcess(process.pid)
  if (found === undefined) throw new Error('This process is not listed in /proc. Mount /proc.')
  return [await placeMark(), found.pid, found.startTime].join('/')
}

async function placeMark(): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
  return `${boot.trim()}/${await readlink('/proc/self/ns/pid')}`
}

/** Reports whether the owner of an object has died. For a process on another machine only the deadline is known. */
export async function isAbandoned(labels: Record<string, string>): Promise<boolean> {
  const owner = labels[LABEL.owner] ?? ''
  const late = Date.now() > Number(labels[LABEL.deadline] ?? Infinity) + GRACE_MS
  if (owner === (await ownerMark())) return false
  const [boot, namespace, pid = '', startTime = ''] = owner.split('/')
  if (`${boot}/${namespace}` !== (await placeMark())) return late
  return late || !(await isAlive({ pid: Number(pid), startTime }))
}

/** A process that cannot be mistaken for a later one with the same number. */
export type ProcessMark = { pid: number; startTime: string }

/** Finds a process by its id. Returns undefined if it does not exist or is a zombie. */
export async function findProcess(pid: number): Promise<ProcessMark | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  // The process name is in parentheses and may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, startTime] = [fields[0], fields[19]]
  if (startTime === undefined || state === 'Z' || state === 'X') return undefined
  return { pid, startTime }
}

export async function isAlive(mark: ProcessMark): Promise<boolean> {
  return (await findProcess(mark.pid))?.startTime === mark.startTime
}

export async function killProcess(mark: ProcessMark): Promise<void> {
  if (await isAlive(mark)) signal(mark.pid)
}

/** Waits until a killed process has ended, which is usually immediate. A hanging disk can delay it. */
export async function waitForEnd(mark: ProcessMark, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  for (let pauseMs = 1; performance.now() < deadline; pauseMs = Math.min(pauseMs * 2, 50)) {
    if (!(await isAlive(mark))) return true
    await wait(pauseMs)
  }
  return false
}

export function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // the process has already ended
  }
}
