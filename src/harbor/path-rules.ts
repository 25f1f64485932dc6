import { PATH_BYTES_MAX, PATH_DEPTH_MAX, PATH_PART_BYTES_MAX } from './limits.ts'

export type PathFault = 'unsafe_path' | 'path_too_long' | 'path_too_deep'

/**
 * What is wrong with a relative path that comes from a stranger. Forbidden is whatever leads out, and whatever two
 * programs may read as two different paths: backslashes, control characters, bytes that are no UTF-8.
 */
export function pathFault(path: string): PathFault | undefined {
  const parts = path.split('/')
  if (!path.isWellFormed() || /[\\\p{Cc}\uFFFD]/u.test(path)) return 'unsafe_path'
  if (parts.some((part) => part === '' || part === '.' || part === '..')) return 'unsafe_path'
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) return 'path_too_long'
  if (parts.some((part) => Buffer.byteLength(part) > PATH_PART_BYTES_MAX)) return 'path_too_long'
  return parts.length > PATH_DEPTH_MAX ? 'path_too_deep' : undefined
}

export type EntryKind = 'file' | 'folder' | 'link'
type TreeFault = 'duplicate' | 'collision' | 'under_a_file' | 'through_a_link'

type Entry = { path: string; kind: EntryKind }

type Added = { fault: TreeFault } | { fault?: never; folders: string[] }

/** A tree that grows by one path after the other, and in which no two are one on another file system. */
export type Tree = {
  /** The first fault, or the folders that this path needs and that were not there yet, outermost first. */
  add(path: string, kind: EntryKind): Added
  find(path: string): Entry | undefined
}

export function newTree(): Tree {
  const entries = new Map<string, Entry>()

  function addFolder(path: string): TreeFault | boolean {
    const before = entries.get(treeKey(path))
    if (before && before.path !== path) return 'collision'
    if (before?.kind === 'file') return 'under_a_file'
    if (before?.kind === 'link') return 'through_a_link'
    entries.set(treeKey(path), { path, kind: 'folder' })
    return before === undefined
  }

  function addLast(path: string, kind: EntryKind): TreeFault | undefined {
    const before = entries.get(treeKey(path))
    if (before) return before.path === path ? 'duplicate' : 'collision'
    entries.set(treeKey(path), { path, kind })
    return undefined
  }

  function addFolders(paths: string[]): Added {
    const folders: string[] = []
    for (const path of paths) {
      const added = addFolder(path)
      if (typeof added === 'string') return { fault: added }
      if (added) folders.push(path)
    }
    return { folders }
  }

  return {
    find: (path) => entries.get(treeKey(path)),
    add(path, kind) {
      if (kind === 'folder') return addFolders(prefixes(path))
      const above = addFolders(prefixes(path).slice(0, -1))
      const fault = above.fault ?? addLast(path, kind)
      return fault ? { fault } : above
    },
  }
}

/** `a/b/c`: a, a/b, a/b/c. */
export function prefixes(path: string): string[] {
  const parts = path.split('/')
  return parts.map((_, last) => parts.slice(0, last + 1).join('/'))
}

/** Equal for two paths that some file system takes for one. Upper case first: it makes ß and ss the same. */
const treeKey = (path: string): string => path.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')

/** By code point, as Python sorts. JavaScript sorts by half of a surrogate pair. */
export const byCodePoint = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))
