import { note, type Shell } from './shell.ts'

/** Build servers take a command that prints nothing for a while for a dead one. */
const EVERY_MS = 9_000

export type Heartbeat = { stop(): void }

/** Prints a line every few seconds while a long command runs without a terminal. On a terminal nothing is printed. */
export function printEvery(shell: Shell, line: () => string | undefined): Heartbeat {
  if (shell.errors.isTTY) return { stop: () => {} }
  const timer = setInterval(() => {
    const text = line()
    if (text !== undefined) note(shell, text)
  }, EVERY_MS)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
