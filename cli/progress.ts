import { type Heartbeat, startHeartbeat } from './heartbeat.ts'
import { type Shell, safeLine } from './shell.ts'

const WIDTH = 24

type ProgressBar = { show(done: number, total: number, detail: string): void; end(): void }

/** Updates one line in place. Without a terminal, prints it every few seconds. */
export function createProgressBar(shell: Shell): ProgressBar {
  const { errors } = shell
  let shown = false
  let line: string | undefined
  let heartbeat: Heartbeat | undefined
  return {
    show(done, total, detail) {
      line = `${done}/${total} ${detail}`
      heartbeat ??= startHeartbeat(shell, () => line)
      if (!errors.isTTY) return
      shown = true
      errors.write(`\r${renderBar(done, total)} ${done}/${total} ${safeLine(errors, detail)}\u001b[K`)
    },
    end() {
      heartbeat?.stop()
      heartbeat = undefined
      if (shown) errors.write('\r\u001b[K')
      shown = false
    },
  }
}

export function renderBar(done: number, total: number): string {
  const full = Math.min(WIDTH, Math.round((WIDTH * done) / Math.max(1, total)))
  return `[${'='.repeat(full)}${' '.repeat(WIDTH - full)}]`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB']

export function formatBytes(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const value = bytes / 1024 ** power
  return `${power === 0 ? value : value.toFixed(1)} ${UNITS[power]}`
}
