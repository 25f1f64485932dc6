import { type Shell, safeLine } from './shell.ts'

const WIDTH = 24

export type ProgressBar = { show(done: number, total: number, detail: string): void; end(): void }

/** Updates one line in place. Prints nothing without a terminal, so that logs do not fill with bars. */
export function progressBar({ errors }: Shell): ProgressBar {
  let shown = false
  return {
    show(done, total, detail) {
      if (!errors.isTTY) return
      shown = true
      errors.write(`\r${bar(done, total)} ${done}/${total} ${safeLine(errors, detail)}\u001b[K`)
    },
    end() {
      if (shown) errors.write('\r\u001b[K')
    },
  }
}

export function bar(done: number, total: number): string {
  const full = Math.min(WIDTH, Math.round((WIDTH * done) / Math.max(1, total)))
  return `[${'='.repeat(full)}${' '.repeat(WIDTH - full)}]`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB']

export function byteCount(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const value = bytes / 1024 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${UNITS[power]}`
}
