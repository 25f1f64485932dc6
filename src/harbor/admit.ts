import { ArchiveRefused } from './archive-refused.ts'
import { type EntryKind, pathFault, type Tree } from './path-rules.ts'
import type { TarEntry } from './tar-reader.ts'

export type EntryLimits = { entries: number; fileBytes: number; totalBytes: number; links: 'none' | 'inside' }

/** What the entries so far add up to. */
export type Sum = { entries: number; bytes: number }

const KINDS: Partial<Record<string, EntryKind | 'hardlink' | 'sparse'>> = {
  File: 'file',
  OldFile: 'file',
  ContiguousFile: 'file',
  Directory: 'folder',
  SymbolicLink: 'link',
  Link: 'hardlink',
  SparseFile: 'sparse',
}

/** What an entry may become. Adds it to the sum. Throws ArchiveRefused. */
export function admit({ path, type, bytes }: TarEntry, limits: EntryLimits, sum: Sum): EntryKind {
  const kind = KINDS[type]
  if (kind === undefined) throw new ArchiveRefused('special_file', 'Only files and folders are unpacked.', path)
  if (kind === 'sparse') throw new ArchiveRefused('sparse', 'A sparse file is not unpacked.', path)
  if (kind === 'hardlink' || (kind === 'link' && limits.links === 'none')) {
    throw new ArchiveRefused('link', 'A link is not unpacked.', path)
  }
  if (kind !== 'file' && bytes > 0) throw new ArchiveRefused('damaged', 'Only a file has content.', path)
  const fault = pathFault(path)
  if (fault) throw new ArchiveRefused(fault, 'This path is not unpacked.', path)
  count(path, bytes, limits, sum)
  return kind
}

function count(path: string, bytes: number, limits: EntryLimits, sum: Sum): void {
  sum.entries++
  sum.bytes += bytes
  if (sum.entries > limits.entries) {
    throw new ArchiveRefused('too_many_entries', `It has more than ${limits.entries} entries.`)
  }
  if (bytes > limits.fileBytes)
    throw new ArchiveRefused('file_too_large', `The most is ${limits.fileBytes} bytes.`, path)
  if (sum.bytes > limits.totalBytes)
    throw new ArchiveRefused('too_large', `It has more than ${limits.totalBytes} bytes.`)
}

const TARGET_LENGTH_MAX = 1024

/**
 * Follows a link part by part. It must stay in the folder, and meet no other link on its way: through a second one, a
 * path means something else than it says. It may lead to what is not there.
 */
export function checkLink({ path, linkTarget }: TarEntry, tree: Tree): void {
  if (linkTarget === '' || linkTarget.length > TARGET_LENGTH_MAX || /^\/|[\\\p{Cc}\uFFFD]/u.test(linkTarget)) {
    throw new ArchiveRefused('link_outside', 'The target of the link is not allowed.', path)
  }
  const at = path.split('/').slice(0, -1)
  for (const part of linkTarget.split('/').filter((each) => each !== '' && each !== '.')) {
    if (part === '..' && at.length === 0) throw new ArchiveRefused('link_outside', 'The link leads out.', path)
    if (part === '..') at.pop()
    else at.push(part)
    if (tree.find(at.join('/'))?.kind === 'link') {
      throw new ArchiveRefused('through_a_link', 'The link leads through another one.', path)
    }
  }
}
