import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Holder } from './holder.ts'
import { tryProgram } from './run-program.ts'

export type DiskWatch = { stop(): void; isFull(): Promise<boolean> }

const LOOK_MS = 500
const FULL_SHARE = 0.01
const MEGABYTE = 1024 * 1024

/** A disk of its own cannot overflow; that it was full is remembered, because what filled it may have been deleted. */
export function watchDisk(holder: Holder, disk: string): DiskWatch {
  let full = false
  const look = async (): Promise<void> => {
    const { bavail, blocks } = await statfs(join(holder.root, disk))
    if (bavail < blocks * FULL_SHARE) full = true
  }
  const timer = setInterval(() => void look().catch(() => {}), LOOK_MS)
  return {
    stop: () => clearInterval(timer),
    async isFull() {
      await look()
      return full
    },
  }
}

/** Without a disk of its own: what it wrote is measured now and then, and `onFull` is told. */
export function watchFolder(folder: string, maxMb: number, onFull: () => void): DiskWatch {
  let full = false
  const look = async (): Promise<void> => {
    const { output } = await tryProgram('du', ['-s', '--block-size=1', folder])
    if (full || Number(output.split('\t')[0]) <= maxMb * MEGABYTE) return
    full = true
    onFull()
  }
  let busy = false
  const timer = setInterval(() => {
    if (busy) return
    busy = true
    look()
      .finally(() => {
        busy = false
      })
      .catch(() => {})
  }, LOOK_MS)
  return { stop: () => clearInterval(timer), isFull: async () => full }
}

/** No limit. */
export const noWatch: DiskWatch = { stop: () => {}, isFull: async () => false }
