import { tarStream } from '../harbor/archive-stream.ts'
import { FILES_MAX, TASK_BYTES_MAX } from '../harbor/limits.ts'
import { createTaskStore, type StoredTask, type TaskStore } from '../harbor/registries/task-store.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'
import { type Blobs, type Digest, isDigest } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { deleteUnusedContent, insertContent, listUnusedContents, touchContents } from './sql.ts'

type ContentDeps = { db: Db; blobs: Blobs }

/** Store of task contents, shared by all workspaces and deduplicated by digest. */
export const contentStore = ({ db, blobs }: ContentDeps): TaskStore =>
  createTaskStore(blobs, {
    find: (digests) => touchContents(db, digests),
    add: async (task) => void (await insertContent(db, task)),
  })

/** Finds content by the digest in a row. Undefined if its files are not stored. */
export async function findContent(deps: ContentDeps, digest: string | null): Promise<StoredTask | undefined> {
  return isDigest(digest) ? (await contentStore(deps).find([digest])).get(digest) : undefined
}

/** Unpacks a task into a folder that must not exist yet. Throws if the content is not stored. */
export async function unpackContent(deps: ContentDeps, digest: string, folder: string): Promise<StoredTask> {
  const stored = await findContent(deps, digest)
  if (!stored) throw new Error(`Content of task ${digest} is no longer stored`)
  await contentStore(deps).unpack(stored, folder)
  return stored
}

const SWEEP_MAX = 1000

/** Deletes task contents that nothing refers to. Returns their number. */
export async function sweepContents({ db, blobs }: ContentDeps): Promise<number> {
  const unused = await listUnusedContents(db, SWEEP_MAX)
  for (const digest of unused) {
    await transact(db, async (tx) => {
      const archive = await deleteUnusedContent(tx, digest)
      if (archive) await blobs.remove(archive)
    })
  }
  return unused.length
}

/** Limits for archives that were packed and checked by this server. */
const OWN_LIMITS = { entries: FILES_MAX, totalBytes: TASK_BYTES_MAX, ratio: Number.POSITIVE_INFINITY, timeMs: 600_000 }

/** Yields every file of a stored task. Each must be read completely before the next is requested. */
export async function* openContent(blobs: Blobs, archive: Digest) {
  for await (const { path, bytes, content } of readTarEntries(tarStream(await blobs.get(archive), OWN_LIMITS)))
    yield { path, bytes, content: content() }
}

/** Streams one file of a stored task. The content is verified only when the stream ends without an error. */
export async function* readContentFile(blobs: Blobs, archive: Digest, path: string): AsyncGenerator<Buffer> {
  // Read to the end, also after the file: the blob verifies its digest only there.
  for await (const entry of readTarEntries(tarStream(await blobs.get(archive), OWN_LIMITS)))
    if (entry.path === path) yield* entry.content()
    else for await (const _ of entry.content());
}
