import { appendFile, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { runInParallel } from '../harbor/registries/in-parallel.ts'
import { RegistryUnavailable } from '../harbor/registries/registry.ts'
import { createTaskStore, type StoredTask, type TaskIndex, type TaskStore } from '../harbor/registries/task-store.ts'
import { type Blobs, Digest } from '../platform/blobs/blob.ts'
import { passingBlobs } from '../platform/blobs/file-blobs.ts'
import type { Db } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { Problem } from '../platform/problem.ts'
import { contents } from './contents.ts'
import { insertContent } from './sql.ts'

export type DraftTools = { db: Db; blobs: Blobs; draftsFolder: string }

/** What is being added lies in a draft, so that a refusal leaves nothing. */
type Draft = {
  /** Finds what is in the draft or kept already; puts into the draft. */
  store: TaskStore
  /**
   * Finds only what came into this draft. Of these digests, what is kept already is not stored once more when it comes:
   * that it came, and was the same, is all that is remembered.
   */
  fresh(digests: readonly StoredTask['digest'][]): Promise<TaskStore>
  /** Moves these from the draft to where all tasks are kept. */
  keep(tasks: readonly StoredTask[]): Promise<void>
}

/** The draft is gone afterwards, unless it broke off for what may pass: then the next with this name goes on where it was. */
export async function withDraft<T>(tools: DraftTools, name: string, work: (draft: Draft) => Promise<T>): Promise<T> {
  const folder = await claim(tools.draftsFolder, name)
  try {
    const result = await work(await openDraft(tools, folder))
    await rm(folder, { recursive: true, force: true })
    return result
  } catch (error) {
    await rm(isPassing(error) ? join(folder, OWNER) : folder, { recursive: true, force: true })
    throw error
  }
}

const isPassing = (error: unknown): boolean =>
  error instanceof RegistryUnavailable || (error instanceof Problem && error.kind.retryable === true)

const OWNER = 'owner'
/** Each waits for the disk. */
const PARALLEL = 8

/** Of two who want the same at the same time, one takes a draft of its own. */
async function claim(folder: string, name: string): Promise<string> {
  for (const place of [join(folder, name), join(folder, `${name}-${newId()}`)]) {
    await mkdir(place, { recursive: true, mode: 0o700 })
    if (await take(join(place, OWNER))) return place
  }
  throw new Error('A draft that was just made has an owner.')
}

async function take(path: string): Promise<boolean> {
  const owner = Number(await readFile(path, 'utf8').catch(() => '0'))
  if (owner !== 0 && !isGone(owner)) return false
  await rm(path, { force: true })
  try {
    await writeFile(path, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined)

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return codeOf(error) === 'ESRCH'
  }
}

async function openDraft({ db, blobs }: DraftTools, folder: string): Promise<Draft> {
  const draftBlobs = passingBlobs(join(folder, 'blobs'))
  const index = await draftIndex(join(folder, 'tasks.jsonl'))
  const drafted = createTaskStore(draftBlobs, index)
  const kept = contents({ db, blobs })
  return {
    store: {
      find: async (digests) => new Map([...(await drafted.find(digests)), ...(await kept.find(digests))]),
      put: drafted.put,
      unpack: async (task, target) => {
        const isKept = (await kept.find([task.digest])).has(task.digest)
        await (isKept ? kept : drafted).unpack(task, target)
      },
    },
    fresh: async (digests) => {
      const known = await kept.find(digests)
      return {
        ...drafted,
        async find(wanted) {
          const again = (await index.find(wanted)).flatMap(({ digest }) => known.get(digest) ?? [])
          return new Map([...(await drafted.find(wanted)), ...again.map((task) => [task.digest, task] as const)])
        },
        async put(digest, source) {
          const same = known.get(digest)
          if (!same) return drafted.put(digest, source)
          await index.add(same)
          return same
        },
      }
    },
    async keep(tasks) {
      const there = await kept.find(tasks.map((task) => task.digest))
      await runInParallel(tasks, PARALLEL, new AbortController().signal, async (task) => {
        // What others have kept stays as it is: a digest does not cover the rights of files. Without its blob it is not there.
        if (there.has(task.digest)) return
        // The row first: a row without its blob is swept away one day, a blob without a row never.
        await insertContent(db, task)
        await blobs.put(await draftBlobs.get(task.archive), { expect: task.archive })
      })
    },
  }
}

const Line = z.object({
  digest: Digest,
  archive: Digest,
  bytes: z.number(),
  memoryMb: z.number().nullable().default(null),
})

/** A line for each task. The last one may have been cut off by a crash, and then does not count. */
async function draftIndex(path: string): Promise<TaskIndex> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const known = new Map(text.split('\n').flatMap(lineOf))
  return {
    find: async (digests) => digests.flatMap((digest) => known.get(digest) ?? []),
    async add(task) {
      await appendFile(path, `${JSON.stringify(task)}\n`)
      known.set(task.digest, task)
    },
  }
}

function lineOf(text: string): [string, StoredTask][] {
  try {
    const task = Line.parse(JSON.parse(text))
    return [[task.digest, task]]
  } catch {
    return []
  }
}

const DAY_MS = 24 * 60 * 60_000

/** Drafts that nobody came back for. */
export async function sweepDrafts(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const name of names) {
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined)
    if (found && Date.now() - found.mtimeMs > DAY_MS) await rm(path, { recursive: true, force: true })
  }
}
