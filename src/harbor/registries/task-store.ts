import type { Readable } from 'node:stream'
import type { Blobs, Digest } from '../../platform/blobs/blob.ts'
import { packTask, unpack } from '../archive.ts'
import { readDeclaredMemoryMb } from '../read-task.ts'
import type { FileSource } from '../source.ts'

/**
 * A stored task, packed again so that it contains only files covered by the digest. Shared by all datasets that contain
 * it. `memoryMb` is the declared memory, if any.
 */
export type StoredTask = { digest: Digest; archive: Digest; bytes: number; memoryMb: number | null }

/** Maps digests of tasks to the blobs that hold their archives. */
export type TaskIndex = {
  find(digests: readonly Digest[]): Promise<StoredTask[]>
  /** Called after the archive has been stored. Idempotent. */
  add(task: StoredTask): Promise<void>
}

export type TaskStore = {
  find(digests: readonly Digest[]): Promise<Map<Digest, StoredTask>>
  /** Stores files whose digest has been verified. */
  put(digest: Digest, source: FileSource): Promise<StoredTask>
  /** Unpacks a task into a folder that does not exist yet. */
  unpack(task: StoredTask, folder: string): Promise<void>
}

/** Fast compression: higher levels take ten times as long for slightly smaller archives. */
const GZIP_LEVEL = 1

export function createTaskStore(blobs: Blobs, index: TaskIndex): TaskStore {
  return {
    async find(digests) {
      const stored = new Map<Digest, StoredTask>()
      for (const task of await index.find(digests)) if (await blobs.find(task.archive)) stored.set(task.digest, task)
      return stored
    },
    async put(digest, source) {
      const { digest: archive, bytes } = await blobs.put(
        await packTask(source, { includeIgnored: true, level: GZIP_LEVEL }),
      )
      const task = { digest, archive, bytes, memoryMb: await readDeclaredMemoryMb(source) }
      await index.add(task)
      return task
    },
    async unpack({ archive }, folder) {
      const stored: Readable = await blobs.get(archive)
      await unpack(stored, folder)
    },
  }
}
