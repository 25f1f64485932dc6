import type { Stats } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { posix } from 'node:path'
import { UNTRUSTED_FILE_FLAGS } from '../../harbor/folder-source.ts'
import { isWithin } from '../../harbor/paths.ts'
import { ignoreCode } from '../../platform/errors.ts'
import { SandboxUnsupported } from '../sandbox.ts'

/** Path on this machine of a file in a sandbox, with its metadata. */
export type HostPath = { path: string; stats: Stats }

/**
 * Finds a path below a folder without following links: a link in a sandbox may point anywhere on this machine. Safe only
 * while no process can change the folder.
 */
export async function findInside(root: string, path: string): Promise<HostPath | undefined> {
  const parts = toPathParts(path)
  let found: HostPath = { path: root, stats: await lstat(root) }
  for (const part of parts) {
    if (!found.stats.isDirectory()) return undefined
    const next = posix.join(found.path, part)
    const stats = await lstat(next).catch(ignoreMissing)
    if (stats === undefined) return undefined
    found = { path: next, stats }
  }
  return found
}

/** Splits a path of a sandbox. `..` cannot leave the root, because the root's parent is the root. */
export const toPathParts = (path: string): string[] => posix.resolve('/', path).split('/').filter(Boolean)

/** Reports whether a path is one of these paths or lies below one. */
export const isAtOrBelow = (path: string, others: readonly string[]): boolean =>
  others.some((other) => isWithin(path, other))

/** Returns the paths of a workspace in canonical form, without those that lie below others. Refuses the whole sandbox. */
export function listWorkspaceRoots(paths: readonly string[]): string[] {
  const normalized = [...new Set(paths.map((path) => posix.resolve('/', path)))].sort()
  const roots = normalized.filter((path) => !normalized.some((other) => other !== path && isAtOrBelow(path, [other])))
  if (roots.includes('/'))
    throw new SandboxUnsupported('The workspace / includes the whole sandbox. Use a snapshot instead.')
  return roots
}

/** Returns the parent folder of a path as a prefix of names in an archive: `usr/lib/` for `/usr/lib/python3`. */
export const toParentPrefix = (path: string): string =>
  toPathParts(path)
    .slice(0, -1)
    .map((part) => `${part}/`)
    .join('')

/** Reads a regular file below a folder without following links. Returns undefined if it is missing or too large. */
export async function readInside(root: string, path: string, maxBytes: number): Promise<string | undefined> {
  const found = await findInside(root, path)
  if (!found?.stats.isFile() || found.stats.size > maxBytes) return undefined
  await using file = await open(found.path, UNTRUSTED_FILE_FLAGS)
  // A process in the sandbox may have replaced the file since it was checked.
  const { size } = await file.stat()
  return size > maxBytes ? undefined : (await file.read(Buffer.alloc(size), 0, size, 0)).buffer.toString()
}

const ignoreMissing = ignoreCode('ENOENT', 'ENOTDIR', 'ENAMETOOLONG')
