import { createReadStream } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { Readable } from 'node:stream'
import { z } from 'zod'
import { type Blobs, ignoreMissingBlob, isDigest } from '../../platform/blobs/blob.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { formatTrialId } from '../plan.ts'
import type { TrialArtifact } from '../shapes/schema.ts'
import {
  clearArtifacts,
  deleteTrialFiles,
  listOldArtifacts,
  listUnusedTrialFiles,
  lockOldArtifacts,
  measureOldArtifacts,
  readTrialFileTotal,
  upsertTrialFiles,
} from './queue/sql.ts'
import type { TrialKey } from './sql.ts'

/** An artifact within the blob of its trial. Each trial has one blob, so that deleting it never affects another trial. */
export const StoredArtifact = z.object({
  name: z.string(),
  mediaType: z.string(),
  bytes: z.number(),
  offset: z.number(),
})
export type StoredArtifact = z.infer<typeof StoredArtifact>

type StoredArtifacts = { artifacts: StoredArtifact[]; blob: string | null }

const GIGABYTE = 1_000_000_000
const FILE_BYTES_MAX = 64 * 1024 * 1024
const ALL_BYTES_MAX = 256 * 1024 * 1024
const FILES_MAX = 200
const NAME_LENGTH_MAX = 255

type StoreArtifactsDeps = {
  db: Db
  blobs: Blobs
  /** Maximum size of the trial artifacts of a workspace. */
  artifactBytesMax: number
}

/**
 * Stores the files in a trial's output folder, up to a limit. Files that are too long are truncated. Throws if the artifacts
 * of the workspace have reached their quota; trials that end at the same time may exceed it together.
 */
export async function storeArtifacts(
  { db, blobs, artifactBytesMax }: StoreArtifactsDeps,
  folder: string,
  { workspaceId, comparison, ordinal }: TrialKey & { workspaceId: string },
): Promise<StoredArtifacts> {
  // The header makes the blob differ from those of other trials with the same files: it is deleted with this trial's artifacts.
  const header = Buffer.from(`${formatTrialId({ comparison, ordinal })}\n`)
  const files = await listFiles(folder)
  const artifacts: StoredArtifact[] = []
  let offset = header.length
  for (const file of files.slice(0, FILES_MAX)) {
    const bytes = Math.min(file.bytes, FILE_BYTES_MAX, ALL_BYTES_MAX - offset)
    if (bytes <= 0) continue
    artifacts.push({ name: file.name, mediaType: mediaTypeOf(file.name), bytes, offset })
    offset += bytes
  }
  if (artifacts.length === 0) return { artifacts, blob: null }
  if ((await readTrialFileTotal(db, workspaceId)) + offset > artifactBytesMax)
    throw new Error(
      `The trial artifacts of a workspace can take at most ${artifactBytesMax / GIGABYTE} GB (ASSAY_ARTIFACT_GB). Old ones are deleted after ASSAY_ARTIFACT_DAYS.`,
    )
  const { digest } = await blobs.put(Readable.from(readFiles(header, folder, artifacts)))
  await upsertTrialFiles(db, { blob: digest, workspaceId, comparison, ordinal, bytes: offset })
  return { artifacts, blob: digest }
}

async function listFiles(folder: string): Promise<{ name: string; bytes: number }[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files: { name: string; bytes: number }[] = []
  for (const entry of entries) {
    if (!entry.isFile()) continue // Symbolic links could point outside the folder.
    const path = join(entry.parentPath, entry.name)
    const name = relative(folder, path).split(sep).join('/')
    const stats = isShowable(name) ? await stat(path).catch(() => undefined) : undefined
    if (stats) files.push({ name, bytes: stats.size })
  }
  return files.sort((a, b) => toRank(a.name) - toRank(b.name) || (a.name < b.name ? -1 : 1))
}

/**
 * Ranks the engine's own files, which are in no subfolder, first: an agent that leaves many files cannot displace
 * them.
 */
const toRank = (name: string): number => (name.includes('/') ? 1 : 0)

const isShowable = (name: string): boolean =>
  name.length <= NAME_LENGTH_MAX && name.isWellFormed() && !/\p{Cc}/u.test(name)

/** Returns the media type of a file, never one that browsers render: artifacts are untrusted and may be HTML. */
function mediaTypeOf(name: string): string {
  if (name.endsWith('.json')) return 'application/json'
  return /\.(log|txt|patch|diff|md)$/.test(name) ? 'text/plain; charset=utf-8' : 'application/octet-stream'
}

/** Yields exactly the counted bytes. A file that shrinks meanwhile is padded with zeros. */
async function* readFiles(header: Buffer, folder: string, artifacts: StoredArtifact[]): AsyncGenerator<Buffer> {
  yield header
  for (const { name, bytes } of artifacts) {
    let missing = bytes
    const stream = createReadStream(join(folder, name), { end: bytes - 1 })
    for await (const chunk of stream) {
      missing -= chunk.length
      yield chunk
    }
    if (missing > 0) yield Buffer.alloc(missing)
  }
}

/** Streams one artifact from the blob of its trial. */
export async function* readArtifact(
  blobs: Blobs,
  blob: string,
  { offset, bytes }: StoredArtifact,
): AsyncGenerator<Buffer> {
  if (!isDigest(blob)) throw new Error('Invalid digest in database row')
  yield* await blobs.getPart(blob, { offset, bytes })
}

export const toArtifact = ({ name, mediaType, bytes }: StoredArtifact): TrialArtifact => ({ name, mediaType, bytes })

const SWEEP_MAX = 1000

/**
 * Deletes artifacts that are older than `days`, and those that no trial refers to. Trials and results remain. Returns the
 * number of deleted blobs.
 */
export async function sweepArtifacts({ db, blobs }: { db: Db; blobs: Blobs }, days: number): Promise<number> {
  const expired = await listOldArtifacts(db, days, SWEEP_MAX)
  for (const { comparison, ordinal } of expired) {
    // The trial is locked, because a resumed comparison may have replaced the artifacts since they were listed.
    await transact(db, async (tx) => {
      const oldTrial = await lockOldArtifacts(tx, { comparison, ordinal }, days)
      if (!oldTrial) return
      await removeFiles({ db: tx, blobs }, oldTrial.artifacts)
      await clearArtifacts(tx, { comparison, ordinal })
    })
  }
  const unused = await listUnusedTrialFiles(db, SWEEP_MAX)
  for (const { blob } of unused) await removeFiles({ db, blobs }, blob)
  return expired.length + unused.length
}

/** Removes the blob before its row: a blob without a row would never be deleted. */
async function removeFiles({ db, blobs }: { db: Db; blobs: Blobs }, blob: string | null): Promise<void> {
  if (!isDigest(blob)) return
  await blobs.remove(blob).catch(ignoreMissingBlob)
  await deleteTrialFiles(db, blob)
}

/** Counts the trials whose artifacts a sweep would delete, and their bytes. */
export async function measureSweptArtifacts(db: Db, days: number): Promise<{ count: number; bytes: number }> {
  const { count, bytes } = await measureOldArtifacts(db, days)
  return { count, bytes: Number(bytes) }
}

/** Age of folders that are certainly abandoned: longer than any trial runs. */
const OUTPUT_AGE_MAX_MS = 8 * 24 * 60 * 60 * 1000

/** Deletes output folders that dead workers left behind. */
export async function sweepOutput(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    const stats = await stat(path).catch(() => undefined) // The file may be removed at the same time.
    if (stats && Date.now() - stats.mtimeMs > OUTPUT_AGE_MAX_MS) await rm(path, { recursive: true, force: true })
  }
}
