import type { Stats } from 'node:fs'
import { readdir, readlink, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { NamespaceProcess } from './namespace-process.ts'
import { tryProgram } from './run-program.ts'

/** Reports whether the disk was full at or after `since`, a time of `performance.now()`. */
export type DiskWatch = { stop(): void; isFull(since?: number): Promise<boolean> }

const POLL_MS = 500
const FREE_SHARE_MIN = 0.01
const MEGABYTE = 1024 * 1024

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

async function measureFolders(folders: string[], unit: string): Promise<number> {
  if (folders.length === 0) return 0
  const { output } = await tryProgram('du', ['-s', unit, '--', ...folders])
  return output.split('\n').reduce((sum, text) => sum + (Number.parseInt(text, 10) || 0), 0)
}

export type WatchedFolders = {
  folders: string[]
  maxMb: number
  maxInodes?: number | undefined
  /** Lists processes that may have written there: a deleted file takes space while a process has it open. */
  processes: () => Promise<number[]>
}

/** Measures folders that have no disk of their own at intervals, and calls `onFull` above the limit. */
export function watchFolders(
  { folders, maxMb, maxInodes = INODES_MAX, processes }: WatchedFolders,
  onFull: () => void,
): DiskWatch {
  let fullAt = Number.NEGATIVE_INFINITY
  const measure = async (): Promise<void> => {
    const [bytes, inodes] = await Promise.all([
      measureFolders(folders, '--block-size=1'),
      measureFolders(folders, '--inodes'),
    ])
    const deleted = await deletedBytes(await processes())
    if (inodes <= maxInodes && Math.max(bytes + deleted, inodes * INODE_BYTES) <= maxMb * MEGABYTE) return
    fullAt = performance.now()
    onFull()
  }
  let isMeasuring = false
  const timer = setInterval(() => {
    if (isMeasuring) return
    isMeasuring = true
    measure()
      .finally(() => {
        isMeasuring = false
      })
      .catch(() => {})
  }, POLL_MS)
  return { stop: () => clearInterval(timer), isFull: async (since = 0) => fullAt >= since }
}

const BLOCK = 512
const OPEN_FILES_MAX = 10_000

/** Sums the sizes of deleted files that are still open, each file once. */
async function deletedBytes(pids: number[]): Promise<number> {
  const open = await Promise.all(pids.map(async (pid) => listOpenFiles(pid)))
  const sizes = new Map<number, number>()
  for (const path of open.flat().slice(0, OPEN_FILES_MAX)) {
    const found = await statDeleted(path)
    if (found) sizes.set(found.ino, found.blocks * BLOCK)
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
