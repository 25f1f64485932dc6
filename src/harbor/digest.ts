import { createHash } from 'node:crypto'
import { type Digest, hexOf } from '../platform/blobs/blob.ts'
import { compareCodePoints } from './paths.ts'
import type { TaskFile } from './task.ts'

/** Computes Harbor's digest of a task: paths and contents of its files, without their modes. */
export function computeTaskDigest(files: readonly Pick<TaskFile, 'path' | 'sha256'>[]): Digest {
  const sorted = files.toSorted((a, b) => compareCodePoints(a.path, b.path))
  return sha256(sorted.map(({ path, sha256: hex }) => `${path}\0${hex}\n`).join(''))
}

/** Computes Harbor's digest of a dataset: its tasks and additional files, in any order. */
export function computeDatasetDigest(
  tasks: readonly Digest[],
  files: readonly { path: string; digest: Digest }[] = [],
): Digest {
  const taskList = tasks.map(hexOf).toSorted().join(',')
  if (files.length === 0) return sha256(taskList)
  const fileEntries = files.map(({ path, digest }) => `${path}:${hexOf(digest)}`).toSorted(compareCodePoints)
  return sha256(`${taskList};${fileEntries.join(',')}`)
}

const sha256 = (text: string): Digest => `sha256:${createHash('sha256').update(text).digest('hex')}`
