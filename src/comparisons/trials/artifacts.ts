import { createReadStream } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { Readable } from 'node:stream'
import { z } from 'zod'
import { BlobMissing, type Blobs, isDigest } from '../../platform/blobs/blob.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Artifact } from '../shapes/schema.ts'
import { forgetArtifacts, listOldArtifacts } from './sql.ts'

/** All artifacts of a trial are one blob, one after another: what two trials share by chance is never taken from both. */
export const KeptArtifact = z.object({ name: z.string(), mediaType: z.string(), bytes: z.number(), offset: z.number() })
export type KeptArtifact = z.infer<typeof KeptArtifact>

type Kept = { artifacts: KeptArtifact[]; blob: string | null }

const FILE_BYTES_MAX = 64 * 1024 * 1024
const ALL_BYTES_MAX = 256 * 1024 * 1024
const FILES_MAX = 200
const NAME_LENGTH_MAX = 255

/** Keeps what a trial left in its folder, up to a limit: the rest of a file that is too long is cut off. */
export async function keepArtifacts(blobs: Blobs, folder: string, trial: string): Promise<Kept> {
  const head = Buffer.from(`${trial}\n`)
  const files = await filesIn(folder)
  const artifacts: KeptArtifact[] = []
  let offset = head.length
  for (const file of files.slice(0, FILES_MAX)) {
    const bytes = Math.min(file.bytes, FILE_BYTES_MAX, ALL_BYTES_MAX - offset)
    if (bytes <= 0) continue
    artifacts.push({ name: file.name, mediaType: mediaTypeOf(file.name), bytes, offset })
    offset += bytes
  }
  if (artifacts.length === 0) return { artifacts, blob: null }
  const { digest } = await blobs.put(Readable.from(contentOf(head, folder, artifacts)))
  return { artifacts, blob: digest }
}

async function filesIn(folder: string): Promise<{ name: string; bytes: number }[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files: { name: string; bytes: number }[] = []
  for (const entry of entries) {
    if (!entry.isFile()) continue // a link could lead anywhere
    const path = join(entry.parentPath, entry.name)
    const name = relative(folder, path).split(sep).join('/')
    const found = isShowable(name) ? await stat(path).catch(() => undefined) : undefined
    if (found) files.push({ name, bytes: found.size })
  }
  return files.sort((a, b) => depth(a) - depth(b) || (a.name < b.name ? -1 : 1))
}

/** What we wrote ourselves comes first: an agent that leaves many files cannot push it out. */
const depth = ({ name }: { name: string }): number => (name.includes('/') ? 1 : 0)

const isShowable = (name: string): boolean =>
  name.length <= NAME_LENGTH_MAX && name.isWellFormed() && !/\p{Cc}/u.test(name)

/** Never one that a browser would show: what a trial wrote may be a page. */
function mediaTypeOf(name: string): string {
  if (name.endsWith('.json')) return 'application/json'
  return /\.(log|txt|patch|diff|md)$/.test(name) ? 'text/plain; charset=utf-8' : 'application/octet-stream'
}

/** Exactly the bytes that were counted, whatever becomes of a file meanwhile. */
async function* contentOf(head: Buffer, folder: string, artifacts: KeptArtifact[]): AsyncGenerator<Buffer> {
  yield head
  for (const { name, bytes } of artifacts) {
    let left = bytes
    const stream = createReadStream(join(folder, name), { end: bytes - 1 })
    for await (const chunk of stream) {
      left -= chunk.length
      yield chunk
    }
    if (left > 0) yield Buffer.alloc(left)
  }
}

/** One artifact out of the blob of its trial. */
export async function* readArtifact(
  blobs: Blobs,
  blob: string,
  { offset, bytes }: KeptArtifact,
): AsyncGenerator<Buffer> {
  if (!isDigest(blob)) throw new Error('A row holds a digest that is none.')
  let place = 0
  for await (const chunk of await blobs.get(blob)) {
    const part = chunk.subarray(Math.max(0, offset - place), Math.max(0, offset + bytes - place))
    place += chunk.length
    if (part.length > 0) yield part
    if (place >= offset + bytes) return
  }
}

export const shownArtifact = ({ name, mediaType, bytes }: KeptArtifact): Artifact => ({ name, mediaType, bytes })

const SWEEP_MAX = 1000

/** Artifacts are kept for so many days. The trial and its result stay. */
export async function sweepArtifacts({ db, blobs }: { db: Db; blobs: Blobs }, days: number): Promise<number> {
  const old = await listOldArtifacts(db, days, SWEEP_MAX)
  for (const { comparison, ordinal, artifacts } of old) {
    if (isDigest(artifacts)) await blobs.remove(artifacts).catch(ignoreMissing)
    await forgetArtifacts(db, { comparison, ordinal })
  }
  return old.length
}

/** No trial runs longer than a week. */
const OUTPUT_AGE_MAX_MS = 8 * 24 * 60 * 60 * 1000

/** What workers that died have left of their trials. */
export async function sweepOutput(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    const found = await stat(path).catch(() => undefined) // its owner may remove it at any time
    if (found && Date.now() - found.mtimeMs > OUTPUT_AGE_MAX_MS) await rm(path, { recursive: true, force: true })
  }
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof BlobMissing)) throw error
}
