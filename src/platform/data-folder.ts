import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { open, readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * File that marks a data folder as created on this machine. A data folder must be trusted, because its content can lead
 * to the execution of code: PostgreSQL reads its settings there, and image files name folders that sandboxes mount.
 */
const MARK_FILE = 'created-here'

/** Thrown when the default data folder was not created on this machine. */
export class ForeignDataFolder extends Error {
  override name = 'ForeignDataFolder'
}

/** Creates a data folder that belongs to the user alone, with a mark of this machine. Leaves an existing one as it is. */
export function createDataFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  if (readdirSync(path).length > 0) return
  // The mark is written first, so that a killed process leaves either an empty folder or a marked one.
  writeMark(path)
  writeFileSync(join(path, '.gitignore'), '*\n')
}

const GIGABYTE = 1_000_000_000

/** Returns the space on the disk of the data folder, rounded down to gigabytes, so that the value rarely changes. */
export async function readDisk(path: string): Promise<{ freeBytes: number; totalBytes: number }> {
  const { bavail, blocks, bsize } = await statfs(path)
  const toBytes = (blockCount: number) => Math.floor((blockCount * bsize) / GIGABYTE) * GIGABYTE
  return { freeBytes: toBytes(bavail), totalBytes: toBytes(blocks) }
}

/** Throws if the folder has content and no mark of this machine: a clone or an archive may contain a prepared data folder. */
export function requireOwnDataFolder(path: string): void {
  if (!isForeign(path)) return
  throw new ForeignDataFolder(
    `${path} was not created by Assay on this machine. It may be part of a clone, and using it could execute programs in it. Delete it, or name it once with --data if it is yours.`,
  )
}

/** Marks a folder that the user has named. A folder that cannot be marked is still used. */
export function adoptDataFolder(path: string): void {
  if (!isForeign(path)) return
  try {
    writeMark(path)
  } catch {
    return
  }
}

/** Returns true for a folder that has content and no mark of this machine. */
function isForeign(path: string): boolean {
  if (!existsSync(path) || !statSync(path).isDirectory() || readdirSync(path).length === 0) return false
  return readMark(path) !== identify(path)
}

const writeMark = (path: string): void => writeFileSync(join(path, MARK_FILE), identify(path), { mode: 0o600 })

function readMark(path: string): string | undefined {
  try {
    return readFileSync(join(path, MARK_FILE), 'utf8')
  } catch {
    return undefined
  }
}

/**
 * Identifies a folder on this disk by values that cannot be predicted. The device number is left out, because it can change
 * when the machine restarts.
 */
function identify(path: string): string {
  const { ino, birthtimeNs } = statSync(path, { bigint: true })
  return `${ino} ${birthtimeNs}\n`
}

/** A file or folder that was deleted, or would be. */
export type PrunedPath = { path: string; bytes: number }

/** Options of deleting unused files. With `isDryRun`, they are listed and not deleted. */
export type PruneOptions = { olderThanMs: number; isDryRun: boolean }

/** Returns the size of all files in a folder. Files that disappear meanwhile are not counted. */
export async function measureBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) =>
      stat(join(parentPath, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    )
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

/** Returns the time since a path was last changed, or undefined if it does not exist. */
export async function readAgeMs(path: string): Promise<number | undefined> {
  const stats = await stat(path).catch(() => undefined)
  return stats && Date.now() - stats.mtimeMs
}

/** Syncs a folder, so that a rename or a new file in it survives a power cut. Not available on Windows. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  await using folder = await open(path, 'r')
  await folder.sync()
}

/** Error codes of a full or read-only disk. 53100 is PostgreSQL's `disk_full`. */
const DISK_ERRORS = new Set(['ENOSPC', 'EDQUOT', 'EROFS', '53100'])

/** Programs in sandboxes fail at different amounts of free space. With less than this, the disk may be the reason. */
const FREE_BYTES_MIN = 256 * 1024 * 1024

export const DISK_FULL =
  'The disk of the server is full or read-only. Work continues when it has space and is writable again.'

/** True if the error or one of its causes says that the disk is full or read-only. */
export function isDiskError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return ('code' in error && DISK_ERRORS.has(String(error.code))) || isDiskError(error.cause)
}

/** True if an error may be due to the disk of a folder and not to the task that was running. */
export const isCausedByDisk = async (error: unknown, folder: string): Promise<boolean> =>
  isDiskError(error) || (await isDiskFull(folder))

/** True if the disk of a folder has so little free space that failures cannot be attributed to a task. */
export async function isDiskFull(folder: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize < FREE_BYTES_MIN
}
