import { execFile } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreCode } from '../errors.ts'
import { type ServerFolder, SOCKET_FILE } from './folder.ts'

export type Postmaster = { pid: number; port: number; socketFolder: string; ready: boolean }

const STOP_TIMEOUT_MS = 60_000

/** Finds the server that runs on this folder, ready or not. */
export async function findPostmaster(folder: ServerFolder): Promise<Postmaster | undefined> {
  const lines = await readLockFile(folder)
  const pid = Number(lines[LOCK_LINE.pid])
  if (!pid || (await classifyProcess(pid, folder)) !== 'postmaster') return undefined
  return {
    pid,
    port: Number(lines[LOCK_LINE.port]),
    socketFolder: lines[LOCK_LINE.socketFolder] ?? '',
    ready: lines[LOCK_LINE.status]?.trim() === 'ready',
  }
}

/** Line numbers in postmaster.pid, from 0. */
const LOCK_LINE = { pid: 0, port: 3, socketFolder: 4, sharedMemory: 6, status: 7 }

/** Performs a fast shutdown, which ends sessions and keeps committed data. */
export async function shutDown(folder: ServerFolder): Promise<void> {
  const postmaster = await findPostmaster(folder)
  if (postmaster === undefined) return
  process.kill(postmaster.pid, 'SIGINT')
  const hasEnded = await waitUntil(STOP_TIMEOUT_MS, async () =>
    (await classifyProcess(postmaster.pid, folder)) === 'postmaster' ? undefined : true,
  )
  if (!hasEnded)
    throw new Error(
      `PostgreSQL in ${folder.path} (process ${postmaster.pid}) did not stop in ${STOP_TIMEOUT_MS / 1000} s.`,
    )
}

/**
 * Removes the lock file of a killed server whose process id now belongs to another program, after a reboot or in a new
 * container: PostgreSQL would mistake that program for itself. Call under the lock.
 */
export async function removeStaleLock(folder: ServerFolder, socketFolder: string): Promise<void> {
  const pid = Number((await readLockFile(folder))[LOCK_LINE.pid])
  if (!pid || (await classifyProcess(pid, folder)) !== 'other program') return
  await rm(join(folder.data, 'postmaster.pid'), { force: true })
  await rm(join(socketFolder, `${SOCKET_FILE}.lock`), { force: true })
}

/** Returns true while any process of a dead server is still attached to its shared memory. */
export async function isMemoryHeld(folder: ServerFolder): Promise<boolean> {
  // The line has the key of the segment and its id.
  const [, id] = (await readLockFile(folder))[LOCK_LINE.sharedMemory]?.trim().split(/\s+/) ?? []
  const table = await readFile('/proc/sysvipc/shm', 'utf8').catch(ignoreCode('ENOENT'))
  if (id === undefined || table === undefined) return false
  const segment = table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .find((columns) => columns[SHM_ID] === id)
  return Number(segment?.[SHM_ATTACHED] ?? 0) > 0
}

/** Columns of /proc/sysvipc/shm, from 0: the id of a segment, and the number of processes attached to it. */
const SHM_ID = 1
const SHM_ATTACHED = 6

async function readLockFile(folder: ServerFolder): Promise<string[]> {
  const text = await readFile(join(folder.data, 'postmaster.pid'), 'utf8').catch(ignoreCode('ENOENT'))
  return text?.split('\n') ?? []
}

type ProcessKind = 'postmaster' | 'other program' | 'gone'

/** Classifies a process. A zombie counts as gone. */
async function classifyProcess(pid: number, folder: ServerFolder): Promise<ProcessKind> {
  const { state, command } = process.platform === 'linux' ? await inspectByProc(pid) : await inspectByPs(pid)
  if (state === '' || state.startsWith('Z') || state.startsWith('X')) return 'gone'
  return command.includes(` -D ${folder.data} -c `) ? 'postmaster' : 'other program'
}

type ProcessInspection = { state: string; command: string }

/** Reads the state last, so that a process that exits meanwhile counts as gone, not as one without a command. */
async function inspectByProc(pid: number): Promise<ProcessInspection> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(ignoreGone)
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(ignoreGone)
  // The program name comes first, in parentheses, and may itself contain some.
  const state = status?.slice(status.lastIndexOf(')') + 2) ?? ''
  return { state, command: command?.replaceAll('\0', ' ') ?? '' }
}

async function inspectByPs(pid: number): Promise<ProcessInspection> {
  const line = await new Promise<string>((resolve) => {
    execFile('ps', ['-ww', '-o', 'stat=,command=', '-p', String(pid)], (_error, stdout) => resolve(stdout.trim()))
  })
  const end = line.indexOf(' ')
  return { state: line.slice(0, end), command: line.slice(end) }
}

/** Ignores ENOENT, and ESRCH for a process that exited between opening and reading. */
const ignoreGone = ignoreCode('ENOENT', 'ESRCH')

/** Polls until `poll` returns a value. Returns undefined after the timeout. */
export async function waitUntil<Answer>(
  timeoutMs: number,
  poll: () => Promise<Answer | undefined>,
  pollMs = 10,
): Promise<Answer | undefined> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await poll()
    if (answer !== undefined || Date.now() > deadline) return answer
    await sleep(pollMs)
  }
}
