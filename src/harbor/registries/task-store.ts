import type { Readable } from 'node:stream'
import type { Blobs, Digest } from '../../platform/blobs/blob.ts'
import { unpack } from '../archive.ts'
import { declaredMemoryMb } from '../declared-memory.ts'
import { pack } from '../pack.ts'
import type { FileSource } from '../source.ts'

/**
 * A task as we keep it: packed by ourselves, so that nothing is in it which the digest does not cover. Many datasets
 * share one. Its memory is what it says that it needs, if it does.
 */
export type StoredTask = { digest: Digest; archive: Digest; bytes: number; memoryMb: number | null }

/** Which blob holds which task. A blob is known by its own bytes, a task by its files: somebody has to remember. */
export type TaskIndex = {
  find(digests: readonly Digest[]): Promise<StoredTask[]>
  /** Only called when the archive is safely stored. The same task twice is no mistake. */
  add(task: StoredTask): Promise<void>
}

export type TaskStore = {
  /** Those that are there, by digest. */
  find(digests: readonly Digest[]): Promise<Map<Digest, StoredTask>>
  /** Files that were just found to have this digest. */
  put(digest: Digest, source: FileSource): Promise<StoredTask>
  /** Into a folder that does not exist yet. */
  unpack(task: StoredTask, folder: string): Promise<void>
}

/** Of what is packed once and unpacked often, a little smaller is not worth ten times the work. */
const QUICK = 1

export function taskStore(blobs: Blobs, index: TaskIndex): TaskStore {
  return {
    async find(digests) {
      const found = new Map<Digest, StoredTask>()
      for (const task of await index.find(digests)) if (await blobs.find(task.archive)) found.set(task.digest, task)
      return found
    },
    async put(digest, source) {
      const { digest: archive, bytes } = await blobs.put(await pack(source, { isPackage: true, level: QUICK }))
      const task = { digest, archive, bytes, memoryMb: await declaredMemoryMb(source) }
      await index.add(task)
      return task
    },
    async unpack({ archive }, folder) {
      const stored: Readable = await blobs.get(archive)
      await unpack(stored, folder)
    },
  }
}
