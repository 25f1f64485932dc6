import { readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'

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
