import { statfs } from 'node:fs/promises'

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
