import { startHeartbeat } from './heartbeat.ts'
import { type Shell, safeLine } from './shell.ts'

type LiveLines = { show(lines: readonly string[]): void; end(): void }

/** Width of a terminal that does not report its own. */
const DEFAULT_WIDTH = 100

/** Updates a few lines in place. Without a terminal, prints the first of them every few seconds. */
export function createLiveLines(shell: Shell): LiveLines {
  const { errors } = shell
  if (!errors.isTTY) return printFirstLine(shell)
  let shownLines = 0
  // Moves the cursor up to the first line and erases everything below it.
  const buildClearSequence = () => (shownLines === 0 ? '' : `\u001b[${shownLines}A\u001b[J`)
  return {
    show(lines) {
      const width = (errors.columns ?? DEFAULT_WIDTH) - 1
      errors.write(`${buildClearSequence()}${lines.map((line) => safeLine(errors, line.slice(0, width))).join('\n')}\n`)
      shownLines = lines.length
    },
    end() {
      if (shownLines > 0) errors.write(buildClearSequence())
      shownLines = 0
    },
  }
}

function printFirstLine(shell: Shell): LiveLines {
  let firstLine: string | undefined
  const heartbeat = startHeartbeat(shell, () => firstLine ?? 'Waiting for the service.')
  return {
    show([line]) {
      firstLine = line
    },
    end: heartbeat.stop,
  }
}
