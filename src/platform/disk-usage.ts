import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** A file or folder that was deleted, or would be. */
export type PrunedPath = { path: string; bytes: number }

/** `isDryRun` deletes nothing. */
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
