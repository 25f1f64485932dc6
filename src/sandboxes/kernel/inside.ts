import { constants, type Stats } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { posix } from 'node:path'

/** A path of a sandbox as it is on this machine, with what is there. */
export type HostPath = { path: string; stats: Stats }

/**
 * Finds a path below a folder without going through any link: what a sandbox left there may point anywhere on this
 * machine. Safe only while nothing runs that could change it.
 */
export async function findInside(root: string, path: string): Promise<HostPath | undefined> {
  const parts = partsOf(path)
  let place: HostPath = { path: root, stats: await lstat(root) }
  for (const part of parts) {
    if (!place.stats.isDirectory()) return undefined
    const next = posix.join(place.path, part)
    const stats = await lstat(next).catch(ignoreMissing)
    if (stats === undefined) return undefined
    place = { path: next, stats }
  }
  return place
}

/** `..` cannot leave: the root's parent is the root. */
export const partsOf = (path: string): string[] => posix.resolve('/', path).split('/').filter(Boolean)

export async function readInside(root: string, path: string, maxBytes: number): Promise<string | undefined> {
  const place = await findInside(root, path)
  if (!place?.stats.isFile() || place.stats.size > maxBytes) return undefined
  await using file = await open(place.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  // Something may run there by now, and have put another thing in its place.
  const { size } = await file.stat()
  return size > maxBytes ? undefined : (await file.read(Buffer.alloc(size), 0, size, 0)).buffer.toString()
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR' && error.code !== 'ENAMETOOLONG') throw error
}
