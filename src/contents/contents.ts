import { appendFile, link, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { tarStream } from '../harbor/archive-stream.ts'
import { FILES_MAX, TASK_BYTES_MAX } from '../harbor/limits.ts'
import { RegistryUnavailable } from '../harbor/registries/registry.ts'
import { createTaskStore, type StoredTask, type TaskIndex, type TaskStore } from '../harbor/registries/task-store.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'
import { type Blobs, Digest, isDigest } from '../platform/blobs/blob.ts'
import { temporaryBlobs } from '../platform/blobs/file-blobs.ts'
import { runInParallel } from '../platform/concurrency.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { codeOf } from '../platform/errors.ts'
import { newId } from '../platform/ids.ts'
import { Problem } from '../platform/problem.ts'
import { hasProcessEnded } from '../platform/processes.ts'
import { deleteUnusedContent, insertContent, listUnusedContents, touchContents } from './sql.ts'

type ContentDeps = { db: Db; blobs: Blobs }

/** Store of task contents, shared by all workspaces and deduplicated by digest. */
export const contentStore = ({ db, blobs }: ContentDeps): TaskStore =>
  createTaskStore(blobs, {
    find: (digests) => touchContents(db, digests),
    add: async (task) => void (await insertContent(db, task)),
  })

/** Finds content by the digest in a database row. Returns undefined for null and for content that is not stored. */
export async function findContent(deps: ContentDeps, digest: string | null): Promise<StoredTask | undefined> {
  return isDigest(digest) ? (await contentStore(deps).find([digest])).get(digest) : undefined
}

/** Unpacks a task into a folder that must not exist yet. Throws if the content is not stored. */
export async function unpackContent(deps: ContentDeps, digest: string, folder: string): Promise<StoredTask> {
  const task = await findContent(deps, digest)
  if (!task) throw new Error(`Content of task ${digest} is no longer stored`)
  await contentStore(deps).unpack(task, folder)
  return task
}

const SWEPT_CONTENTS_MAX = 1000

/** Deletes task contents that nothing refers to. Returns their number. */
export async function sweepContents({ db, blobs }: ContentDeps): Promise<number> {
  const unused = await listUnusedContents(db, SWEPT_CONTENTS_MAX)
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
  // The digest of the blob is verified at its end, so the rest of the archive is read too.
  for await (const entry of readTarEntries(tarStream(await blobs.get(archive), OWN_LIMITS)))
    if (entry.path === path) yield* entry.content()
    else for await (const _ of entry.content());
}

type DraftDeps = { db: Db; blobs: Blobs; draftsFolder: string }

/** Temporary store for tasks that are being added. A rejected dataset leaves nothing behind. */
type TaskDraft = {
  /** Finds tasks in the draft and in the content store; puts tasks into the draft. */
  store: TaskStore
  /**
   * Returns a store that finds only tasks put into this draft. Tasks with these digests that are stored already are not
   * stored again; the draft only records that they arrived unchanged.
   */
  openFreshStore(digests: readonly StoredTask['digest'][]): Promise<TaskStore>
  /** Moves tasks from the draft to the content store. */
  commit(tasks: readonly StoredTask[]): Promise<void>
}

/** Runs `work` with a draft, which is deleted afterwards, or kept for a retry with the same name after a retryable error. */
export async function withDraft<T>(deps: DraftDeps, name: string, work: (draft: TaskDraft) => Promise<T>): Promise<T> {
  const folder = await claimFolder(deps.draftsFolder, name)
  try {
    const result = await work(await openDraft(deps, folder))
    await rm(folder, { recursive: true, force: true })
    return result
  } catch (error) {
    await rm(isRetryable(error) ? join(folder, OWNER_FILE) : folder, { recursive: true, force: true })
    throw error
  } finally {
    claimedFolders.delete(folder)
  }
}

const isRetryable = (error: unknown): boolean =>
  error instanceof RegistryUnavailable || (error instanceof Problem && error.kind.retryable === true)

const OWNER_FILE = 'owner'
/** Maximum number of concurrent copies, which mostly wait for the disk. */
const COPIES_MAX = 8

/** Folders that calls of this process use. The owner file keeps out other processes. */
const claimedFolders = new Set<string>()

/** Claims the folder of a draft. If another call or process uses it, creates a separate one. */
async function claimFolder(folder: string, name: string): Promise<string> {
  for (const path of [join(folder, name), join(folder, `${name}-${newId()}`)]) {
    if (claimedFolders.has(path)) continue
    claimedFolders.add(path)
    await mkdir(path, { recursive: true, mode: 0o700 })
    if (await takeOwnership(join(path, OWNER_FILE))) return path
    claimedFolders.delete(path)
  }
  throw new Error('New draft folder already has an owner')
}

/**
 * Makes this process the owner of a folder. Returns false if another live process owns it. The owner file appears together
 * with its content, so that it is never read half written.
 */
async function takeOwnership(path: string): Promise<boolean> {
  const owner = Number(await readFile(path, 'utf8').catch(() => '0'))
  if (owner !== 0 && owner !== process.pid && !hasProcessEnded(owner)) return false
  await rm(path, { force: true })
  const temporaryFile = `${path}-${newId()}`
  await writeFile(temporaryFile, String(process.pid))
  try {
    await link(temporaryFile, path)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await rm(temporaryFile, { force: true })
  }
}

async function openDraft({ db, blobs }: DraftDeps, folder: string): Promise<TaskDraft> {
  const draftBlobs = temporaryBlobs(join(folder, 'blobs'))
  const index = await openDraftIndex(join(folder, 'tasks.jsonl'))
  const draftStore = createTaskStore(draftBlobs, index)
  const contents = contentStore({ db, blobs })
  return {
    store: {
      find: async (digests) => new Map([...(await draftStore.find(digests)), ...(await contents.find(digests))]),
      put: draftStore.put,
      unpack: async (task, target) => {
        const isStored = (await contents.find([task.digest])).has(task.digest)
        await (isStored ? contents : draftStore).unpack(task, target)
      },
    },
    openFreshStore: async (digests) => {
      const existing = await contents.find(digests)
      return {
        ...draftStore,
        async find(requested) {
          const arrived = (await index.find(requested)).flatMap(({ digest }) => existing.get(digest) ?? [])
          return new Map([
            ...(await draftStore.find(requested)),
            ...arrived.map((task) => [task.digest, task] as const),
          ])
        },
        async put(digest, source) {
          const same = existing.get(digest)
          if (!same) return draftStore.put(digest, source)
          await index.add(same)
          return same
        },
      }
    },
    async commit(tasks) {
      const alreadyStored = await contents.find(tasks.map((task) => task.digest))
      await runInParallel(tasks, COPIES_MAX, new AbortController().signal, async (task) => {
        // Existing content is not overwritten, because a digest does not cover file modes. `find` ignores rows without a blob.
        if (alreadyStored.has(task.digest)) return
        // The row is inserted first: the sweep deletes a row without a blob, but never a blob without a row.
        await insertContent(db, task)
        await blobs.put(await draftBlobs.get(task.archive), { expect: task.archive })
      })
    },
  }
}

const IndexLine = z.object({
  digest: Digest,
  archive: Digest,
  bytes: z.number(),
  memoryMb: z.number().nullable().default(null),
})

/** Opens the index of a draft, one line per task. A line truncated by a crash is ignored. */
async function openDraftIndex(path: string): Promise<TaskIndex> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const known = new Map(text.split('\n').flatMap(parseLine))
  return {
    find: async (digests) => digests.flatMap((digest) => known.get(digest) ?? []),
    async add(task) {
      await appendFile(path, `${JSON.stringify(task)}\n`)
      known.set(task.digest, task)
    },
  }
}

function parseLine(text: string): [string, StoredTask][] {
  try {
    const task = IndexLine.parse(JSON.parse(text))
    return [[task.digest, task]]
  } catch {
    return []
  }
}

const DAY_MS = 24 * 60 * 60_000

/** Deletes drafts that have not changed for a day. */
export async function sweepDrafts(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const name of names) {
    const path = join(folder, name)
    const stats = await stat(path).catch(() => undefined)
    if (stats && Date.now() - stats.mtimeMs > DAY_MS) await rm(path, { recursive: true, force: true })
  }
}
