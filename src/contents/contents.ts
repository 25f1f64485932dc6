import { tarStream } from '../harbor/archive-stream.ts'
import { FILES_MAX, TASK_BYTES_MAX } from '../harbor/limits.ts'
import { createTaskStore, type StoredTask, type TaskStore } from '../harbor/registries/task-store.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'
import { type Blobs, type Digest, isDigest } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { deleteUnusedContent, insertContent, listUnusedContents, useContents } from './sql.ts'

type Tools = { db: Db; blobs: Blobs }

/** The tasks of all workspaces, once each. */
export const contents = ({ db, blobs }: Tools): TaskStore =>
  createTaskStore(blobs, {
    find: (digests) => useContents(db, digests),
    add: async (task) => void (await insertContent(db, task)),
  })

/** By the digest that a row has. Undefined: its files are not kept. */
export async function findContent(tools: Tools, digest: string | null): Promise<StoredTask | undefined> {
  return isDigest(digest) ? (await contents(tools).find([digest])).get(digest) : undefined
}

/** The files of a task that must be there, into a folder that is not there yet. */
export async function unpackContent(tools: Tools, digest: string, folder: string): Promise<StoredTask> {
  const stored = await findContent(tools, digest)
  if (!stored) throw new Error(`The content of the task ${digest} is not there any more.`)
  await contents(tools).unpack(stored, folder)
  return stored
}

const SWEEP_MAX = 1000

/** Removes the content of tasks that nothing refers to any more. */
export async function sweepContents({ db, blobs }: Tools): Promise<number> {
  const unused = await listUnusedContents(db, SWEEP_MAX)
  for (const digest of unused) {
    await transact(db, async (tx) => {
      const archive = await deleteUnusedContent(tx, digest)
      if (archive) await blobs.remove(archive)
    })
  }
  return unused.length
}

/** Of what we packed ourselves, and checked before. */
const OWN = { entries: FILES_MAX, totalBytes: TASK_BYTES_MAX, ratio: Number.POSITIVE_INFINITY, timeMs: 600_000 }

/** Every file of a task that is kept. Each must be read to its end before the next is asked for. */
export async function* openContent(blobs: Blobs, archive: Digest) {
  for await (const { path, content } of readTarEntries(tarStream(await blobs.get(archive), OWN)))
    yield { path, content: content() }
}

/** The bytes of one file of a task that is kept. They are whole only when the stream ends without an error. */
export async function* readContentFile(blobs: Blobs, archive: Digest, path: string): AsyncGenerator<Buffer> {
  // To the end, also after the file: only there the blob tells whether it was what it should be.
  for await (const entry of readTarEntries(tarStream(await blobs.get(archive), OWN)))
    if (entry.path === path) yield* entry.content()
    else for await (const _ of entry.content());
}
