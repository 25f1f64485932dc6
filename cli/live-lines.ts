import { type Shell, safeLine } from './shell.ts'

export type LiveLines = { show(lines: readonly string[]): void; end(): void }

const WIDTH = 100

/** A few lines that are written over. Where there is no terminal, nothing: a log is not to be filled with tables. */
export function liveLines({ errors }: Shell): LiveLines {
  let shown = 0
  const clear = () => (shown === 0 ? '' : `\u001b[${shown}A\u001b[J`)
  return {
    show(lines) {
      if (!errors.isTTY) return
      const width = (errors.columns ?? WIDTH) - 1
      errors.write(`${clear()}${lines.map((line) => safeLine(errors, line.slice(0, width))).join('\n')}\n`)
      shown = lines.length
    },
    end() {
      if (shown > 0) errors.write(clear())
      shown = 0
    },
  }
}
