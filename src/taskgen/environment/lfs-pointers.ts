import { readBlobs } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import type { TreeEntry } from './read-tree.ts'

/** Beginning and sizes of the small files that Git LFS commits instead of the content. */
const POINTER =
  /^version https:\/\/(?:git-lfs\.github\.com|hawser\.github\.com)\/spec\/v1\n(?:.*\n)*?oid sha256:[0-9a-f]{64}\n/
const POINTER_BYTES_MIN = 110
const POINTER_BYTES_MAX = 1024
const POINTERS_MAX = 5000
const ATTRIBUTES_BYTES_MAX = 64 * 1024
const ATTRIBUTES_MAX = 50

/**
 * Lists the files of a tree whose content is in Git LFS. They are pointers in the image, because only the objects of git
 * are mirrored. Trees without the attribute are not searched.
 */
export async function listLfsPointers(
  place: GitLocation,
  entries: readonly TreeEntry[],
  signal: AbortSignal,
): Promise<string[]> {
  const files = entries.filter(({ kind }) => kind !== 'link')
  const attributes = files
    .filter(({ path, size }) => /(?:^|\/)\.gitattributes$/.test(path) && size <= ATTRIBUTES_BYTES_MAX)
    .slice(0, ATTRIBUTES_MAX)
  if (!(await usesLfs(place, attributes, signal))) return []
  const small = files
    .filter(({ size }) => size >= POINTER_BYTES_MIN && size <= POINTER_BYTES_MAX)
    .slice(0, POINTERS_MAX)
  const found: string[] = []
  for await (const { path, content } of readBlobs(place, small, { signal, bytesMax: POINTER_BYTES_MAX }))
    if (POINTER.test(content.toString('latin1'))) found.push(path)
  return found
}

async function usesLfs(place: GitLocation, attributes: readonly TreeEntry[], signal: AbortSignal): Promise<boolean> {
  for await (const { content } of readBlobs(place, attributes, { signal, bytesMax: ATTRIBUTES_BYTES_MAX }))
    if (/\sfilter=lfs\b/.test(content.toString('latin1'))) return true
  return false
}
