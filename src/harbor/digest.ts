import { createHash } from 'node:crypto'
import { type Digest, hexOf } from '../platform/blobs/blob.ts'
import { byCodePoint } from './path-rules.ts'
import type { TaskFile } from './task.ts'

/** What Harbor knows a task by: the paths and contents of its files. Modes do not count. */
export function taskDigest(files: readonly Pick<TaskFile, 'path' | 'sha256'>[]): Digest {
  const sorted = files.toSorted((a, b) => byCodePoint(a.path, b.path))
  return sha256(sorted.map(({ path, sha256: hex }) => `${path}\0${hex}\n`).join(''))
}

/** What Harbor knows a dataset by: its tasks, and the files beside them, in any order. */
export function datasetDigest(
  tasks: readonly Digest[],
  files: readonly { path: string; digest: Digest }[] = [],
): Digest {
  const listed = tasks.map(hexOf).toSorted().join(',')
  if (files.length === 0) return sha256(listed)
  const beside = files.map(({ path, digest }) => `${path}:${hexOf(digest)}`).toSorted(byCodePoint)
  return sha256(`${listed};${beside.join(',')}`)
}

const sha256 = (text: string): Digest => `sha256:${createHash('sha256').update(text).digest('hex')}`
