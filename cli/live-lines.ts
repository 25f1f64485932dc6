import { type Shell, safeLine } from './shell.ts'

export type LiveLines = { show(lines: readonly string[]): void; end(): void }

const WIDTH = 100

/** Updates a few lines in place. Prints nothing without a terminal, so that logs do not fill with tables. */
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
