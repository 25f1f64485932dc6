import type { Stats } from 'node:fs'
import { readdir, readlink, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { MEGABYTE } from '../sandbox.ts'
import type { NamespaceProcess } from './namespace-process.ts'
import { tryProgram } from './run-program.ts'

/** Reports whether the disk was full at or after `since`, a time of `performance.now()`. */
export type DiskWatch = { stop(): void; isFull(since?: number): Promise<boolean> }

const POLL_MS = 500
/** A disk of which a smaller share is free counts as full. */
const FREE_SHARE_MIN = 0.01

/** Watches a disk image. The kernel enforces its size; a full disk is remembered, because files may be deleted later. */
export function watchDisk(namespaceProcess: NamespaceProcess, disk: string): DiskWatch {
  let fullAt = Number.NEGATIVE_INFINITY
  const measure = async (): Promise<void> => {
    const { bavail, blocks } = await statfs(join(namespaceProcess.root, disk))
    if (bavail < blocks * FREE_SHARE_MIN) fullAt = performance.now()
  }
  const timer = setInterval(() => void measure().catch(() => {}), POLL_MS)
  return {
    stop: () => clearInterval(timer),
    async isFull(since = 0) {
      await measure()
      return fullAt >= since
    },
  }
}

/** Minimum size that is counted for a file, because a filesystem has a limited number of files. */
const INODE_BYTES = 4096
/** Maximum number of files of one sandbox, whatever its disk limit. */
const INODES_MAX = 1_000_000

/** Sums what `du` prints for folders. `unitOption` selects bytes or inodes. */
async function measureFolders(folders: string[], unitOption: string): Promise<number> {
  if (folders.length === 0) return 0
  const { output } = await tryProgram('du', ['-s', unitOption, '--', ...folders])
  return output.split('\n').reduce((sum, text) => sum + (Number.parseInt(text, 10) || 0), 0)
}

type WatchedFolders = {
  folders: string[]
  maxMb: number
  maxInodes?: number | undefined
  /** Lists processes that may have written there: a deleted file takes space while a process has it open. */
  processes: () => Promise<number[]>
}

/**
 * Growth per millisecond that no sandbox exceeds. Folders are not measured again before a limit could be reached at this
 * rate, because a measurement reads all their files.
 */
const FASTEST_GROWTH = { bytes: 4 * MEGABYTE, inodes: 400 }
const PAUSE_MAX_MS = 5000

/** Measures folders that have no disk of their own while they may grow, and calls `onFull` above the limit. */
export function watchFolders(
  { folders, maxMb, maxInodes = INODES_MAX, processes }: WatchedFolders,
  onFull: () => void,
): DiskWatch {
  const maximum = { bytes: maxMb * MEGABYTE, inodes: Math.min(maxInodes, (maxMb * MEGABYTE) / INODE_BYTES) }
  let fullAt = Number.NEGATIVE_INFINITY
  let nextMeasurementAt = performance.now() + computePauseMs(maximum)
  const measure = async (pids: number[]): Promise<void> => {
    const startedAt = performance.now()
    const [written, inodes] = await Promise.all([
      measureFolders(folders, '--block-size=1'),
      measureFolders(folders, '--inodes'),
    ])
    const bytes = written + (await measureDeletedFiles(pids))
    const remaining = { bytes: maximum.bytes - bytes, inodes: maximum.inodes - inodes }
    nextMeasurementAt = startedAt + computePauseMs(remaining)
    if (remaining.bytes >= 0 && remaining.inodes >= 0) return
    fullAt = performance.now()
    onFull()
  }
  let checking: Promise<void> | undefined
  const check = (): Promise<void> => {
    checking ??= processes()
      .then((pids) => (performance.now() < nextMeasurementAt ? undefined : measure(pids)))
      .catch(() => {})
      .finally(() => {
        checking = undefined
      })
    return checking
  }
  const timer = setInterval(() => void check(), POLL_MS)
  return {
    stop: () => clearInterval(timer),
    async isFull(since = 0) {
      if (performance.now() >= nextMeasurementAt) await check()
      return fullAt >= since
    },
  }
}

/** Returns the time for which folders stay below their limits, whatever is written to them. */
const computePauseMs = (remaining: { bytes: number; inodes: number }): number =>
  Math.min(remaining.bytes / FASTEST_GROWTH.bytes, remaining.inodes / FASTEST_GROWTH.inodes, PAUSE_MAX_MS)

/** Unit of `blocks` in the metadata of a file. */
const BLOCK_BYTES = 512
const OPEN_FILES_MAX = 10_000

/** Sums the sizes of deleted files that are still open, each file once. */
async function measureDeletedFiles(pids: number[]): Promise<number> {
  const open = await Promise.all(pids.map(async (pid) => listOpenFiles(pid)))
  const sizes = new Map<number, number>()
  for (const path of open.flat().slice(0, OPEN_FILES_MAX)) {
    const found = await statDeleted(path)
    if (found) sizes.set(found.ino, found.blocks * BLOCK_BYTES)
  }
  return sizes.values().reduce((sum, bytes) => sum + bytes, 0)
}

const listOpenFiles = async (pid: number): Promise<string[]> =>
  (await readdir(`/proc/${pid}/fd`).catch(() => [])).map((name) => `/proc/${pid}/fd/${name}`)

async function statDeleted(path: string): Promise<Stats | undefined> {
  if (!(await readlink(path).catch(() => '')).endsWith(' (deleted)')) return undefined
  const found = await stat(path).catch(() => undefined)
  return found?.isFile() ? found : undefined
}

/** Combines two watches. The result reports a full disk if one of them does. */
export const combineWatches = (one: DiskWatch, other: DiskWatch): DiskWatch => ({
  stop() {
    one.stop()
    other.stop()
  },
  isFull: async (since) => (await one.isFull(since)) || other.isFull(since),
})

/** A watch that never reports a full disk. */
export const NO_WATCH: DiskWatch = { stop: () => {}, isFull: async () => false }
