import { type Heartbeat, startHeartbeat } from './heartbeat.ts'
import { type Shell, safeLine } from './shell.ts'

const BAR_WIDTH = 24

type ProgressBar = { show(done: number, total: number, detail: string): void; end(): void }

/** Creates a progress bar that is updated in place. Without a terminal, the progress is printed every few seconds. */
export function createProgressBar(shell: Shell): ProgressBar {
  const { errors } = shell
  let isShown = false
  let line: string | undefined
  let heartbeat: Heartbeat | undefined
  return {
    show(done, total, detail) {
      line = `${done}/${total} ${detail}`
      heartbeat ??= startHeartbeat(shell, () => line)
      if (!errors.isTTY) return
      isShown = true
      errors.write(`\r${renderBar(done, total)} ${done}/${total} ${safeLine(errors, detail)}\u001b[K`)
    },
    end() {
      heartbeat?.stop()
      heartbeat = undefined
      if (isShown) errors.write('\r\u001b[K')
      isShown = false
    },
  }
}

export function renderBar(done: number, total: number): string {
  const filledWidth = Math.min(BAR_WIDTH, Math.round((BAR_WIDTH * done) / Math.max(1, total)))
  return `[${'='.repeat(filledWidth)}${' '.repeat(BAR_WIDTH - filledWidth)}]`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB']

export function formatBytes(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const value = bytes / 1024 ** unit
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`
}
