import { PATH_BYTES_MAX, PATH_DEPTH_MAX, PATH_PART_BYTES_MAX } from './limits.ts'

type PathFault = 'unsafe_path' | 'path_too_long' | 'path_too_deep'

/**
 * Checks an untrusted relative path. Refuses paths that lead out of the folder, and paths that programs may interpret
 * differently: with backslashes, control characters or invalid UTF-8.
 */
export function findPathFault(path: string): PathFault | undefined {
  const parts = path.split('/')
  if (!path.isWellFormed() || /[\\\p{Cc}\uFFFD]/u.test(path)) return 'unsafe_path'
  if (parts.some((part) => part === '' || part === '.' || part === '..')) return 'unsafe_path'
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) return 'path_too_long'
  if (parts.some((part) => Buffer.byteLength(part) > PATH_PART_BYTES_MAX)) return 'path_too_long'
  return parts.length > PATH_DEPTH_MAX ? 'path_too_deep' : undefined
}

export type EntryKind = 'file' | 'folder' | 'link'
type TreeFault = 'duplicate' | 'collision' | 'under_a_file' | 'through_a_link'

type PathEntry = { path: string; kind: EntryKind }

type AddedPath = { fault: TreeFault } | { fault?: never; folders: string[] }

/** A set of paths that do not collide, even on a file system that ignores case or Unicode forms. */
export type PathTree = {
  /** Adds a path. Returns a fault, or the parent folders that were added with it, outermost first. */
  add(path: string, kind: EntryKind): AddedPath
  find(path: string): PathEntry | undefined
}

export function createPathTree(): PathTree {
  const entries = new Map<string, PathEntry>()

  function addEntry(path: string, kind: EntryKind): TreeFault | undefined {
    const existing = entries.get(foldPath(path))
    if (existing) return existing.path === path ? 'duplicate' : 'collision'
    entries.set(foldPath(path), { path, kind })
    return undefined
  }

  /** Adds the folders that do not exist yet, and returns them. */
  function addFolders(paths: string[]): AddedPath {
    const folders: string[] = []
    for (const path of paths) {
      const existing = entries.get(foldPath(path))
      const fault = existing && findFolderFault(existing, path)
      if (fault) return { fault }
      if (existing) continue
      entries.set(foldPath(path), { path, kind: 'folder' })
      folders.push(path)
    }
    return { folders }
  }

  return {
    find: (path) => entries.get(foldPath(path)),
    add(path, kind) {
      if (kind === 'folder') return addFolders(listPrefixes(path))
      const parents = addFolders(listPrefixes(path).slice(0, -1))
      const fault = parents.fault ?? addEntry(path, kind)
      return fault ? { fault } : parents
    },
  }
}

/** Returns why a path cannot be a folder although the tree has an entry there. */
function findFolderFault(existing: PathEntry, path: string): TreeFault | undefined {
  if (existing.path !== path) return 'collision'
  if (existing.kind === 'file') return 'under_a_file'
  return existing.kind === 'link' ? 'through_a_link' : undefined
}

/** Returns `a`, `a/b` and `a/b/c` for `a/b/c`. */
export function listPrefixes(path: string): string[] {
  const parts = path.split('/')
  return parts.map((_, last) => parts.slice(0, last + 1).join('/'))
}

/** Folds case and Unicode forms, for collision checks. Upper case comes first: it makes ß and ss equal. */
const foldPath = (path: string): string => path.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC')

/** Returns true for a folder itself and for every path below it. */
export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)

/** Compares by code point, as Python does. JavaScript compares UTF-16 code units. */
export const compareCodePoints = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** Returns a test for the characters of a class in a pattern, such as `a-z_`. `members` are those between its brackets. */
export function parseCharacterClass(members: readonly string[]): (character: string) => boolean {
  const ranges: { first: string; last: string }[] = []
  let index = 0
  while (index < members.length) {
    const [first = '', dash, last] = members.slice(index, index + 3)
    const isRange = dash === '-' && last !== undefined
    ranges.push({ first, last: isRange ? last : first })
    index += isRange ? 3 : 1
  }
  return (character) => ranges.some(({ first, last }) => first <= character && character <= last)
}
