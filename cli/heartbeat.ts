import { note, type Shell } from './shell.ts'

/** Time between two lines, short because build servers end commands that print nothing for a while. */
const INTERVAL_MS = 9_000

export type Heartbeat = { stop(): void }

/** Returns the current line, or undefined if there is nothing to print. */
type ProgressLine = () => string | undefined

/** Running heartbeats of a command, the newest last, and the timer that they share. */
type CommandProgress = { lines: ProgressLine[]; timer: NodeJS.Timeout }

/** Progress of running commands. Each command has its own shell. */
const progressByShell = new WeakMap<Shell, CommandProgress>()

/**
 * Prints a line every few seconds while a long command runs without a terminal. On a terminal nothing is printed. Of
 * several heartbeats of a command, only the newest that has a line is printed.
 */
export function startHeartbeat(shell: Shell, line: ProgressLine): Heartbeat {
  if (shell.errors.isTTY) return { stop: () => {} }
  const progress = progressByShell.get(shell) ?? startTimer(shell)
  progress.lines.push(line)
  return {
    stop() {
      progress.lines = progress.lines.filter((other) => other !== line)
      if (progress.lines.length > 0) return
      clearInterval(progress.timer)
      progressByShell.delete(shell)
    },
  }
}

function startTimer(shell: Shell): CommandProgress {
  const lines: ProgressLine[] = []
  const timer = setInterval(() => {
    const text = progress.lines.map((line) => line()).findLast((each) => each !== undefined)
    if (text !== undefined) note(shell, text)
  }, INTERVAL_MS)
  timer.unref()
  const progress = { lines, timer }
  progressByShell.set(shell, progress)
  return progress
}
