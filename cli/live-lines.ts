import { startHeartbeat } from './heartbeat.ts'
import { type Shell, safeLine } from './shell.ts'

type LiveLines = { show(lines: readonly string[]): void; end(): void }

const WIDTH = 100

/** Updates a few lines in place. Without a terminal, prints the first of them every few seconds. */
export function createLiveLines(shell: Shell): LiveLines {
  const { errors } = shell
  if (!errors.isTTY) return printFirstLine(shell)
  let shown = 0
  // Moves the cursor up to the first line and erases everything below it.
  const buildClearSequence = () => (shown === 0 ? '' : `\u001b[${shown}A\u001b[J`)
  return {
    show(lines) {
      const width = (errors.columns ?? WIDTH) - 1
      errors.write(`${buildClearSequence()}${lines.map((line) => safeLine(errors, line.slice(0, width))).join('\n')}\n`)
      shown = lines.length
    },
    end() {
      if (shown > 0) errors.write(buildClearSequence())
      shown = 0
    },
  }
}

function printFirstLine(shell: Shell): LiveLines {
  let first: string | undefined
  const heartbeat = startHeartbeat(shell, () => first ?? 'Waiting for the service.')
  return {
    show([line]) {
      first = line
    },
    end: heartbeat.stop,
  }
}
