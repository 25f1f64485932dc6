import { readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'

/** A process that cannot be mistaken for a later one with the same number. */
export type ProcessMark = { pid: number; startTime: string }

/** Undefined when there is none, or only its corpse. */
export async function findProcess(pid: number): Promise<ProcessMark | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  // The name, in brackets, may hold anything.
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

/** Nothing can hold up the kernel for long once it has been told to kill; a disk that hangs can. */
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
    // it was quicker
  }
}
