import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { ArchiveRefused } from '../../harbor/archive-refused.ts'
import { measureUploaded } from '../../harnesses/bundles/uploaded-archive.ts'
import { BlobMissing, type Blobs, isDigest } from '../../platform/blobs/blob.ts'
import { hashOwned, openOwned, putOwned } from '../../platform/blobs/owned-blob.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { Problem } from '../../platform/problem.ts'
import { type By, record } from '../../workspaces/audit.ts'
import { bundleMissing, bundleRefused, bundlesFull, type SentBundle } from './schema.ts'
import * as rows from './sql.ts'

type Tools = { db: Db; blobs: Blobs }
/** Whether something that is not over yet works with a harness. */
export type HarnessUse = { isHarnessInUse: (db: Db, workspaceId: string, id: string) => Promise<boolean> }
type Sent = { path: string; digest: string; bytes: number }

const ownerOf = (workspaceId: string): string => `harness bundle of ${workspaceId}`

/** Looked through to its end before it is kept. The row first: a row without its blob goes one day, a blob without a row never. */
export async function keepBundle({ db, blobs }: Tools, by: By, { path, digest, bytes }: Sent) {
  const { entries, bytes: unpackedBytes } = await weighed(path)
  const owner = ownerOf(by.workspaceId)
  const blob = await hashOwned(owner, path)
  const bundle: SentBundle = { digest, bytes, files: entries, unpackedBytes }
  const isThere = (await blobs.find(blob)) !== undefined
  await transact(db, async (tx) => {
    await rows.lockBundles(tx, by.workspaceId)
    await requireRoom(tx, by.workspaceId, bundle)
    await rows.noteBundle(tx, by.workspaceId, { ...bundle, blob })
    if (!isThere) await record(tx, { ...by, action: 'harness.bundle_sent', subject: digest })
  })
  await putOwned(blobs, owner, path, blob)
  return { kind: isThere ? ('same' as const) : ('kept' as const), bundle }
}

const GIB = 1024 ** 3
const BUNDLES_MAX = 100
const BYTES_MAX = 16 * GIB

/** Unpacked is what they take on every worker. */
async function requireRoom(tx: Db, workspaceId: string, { digest, unpackedBytes }: SentBundle): Promise<void> {
  const { count, bytes } = await rows.sumOtherBundles(tx, workspaceId, digest)
  if (count < BUNDLES_MAX && bytes + unpackedBytes <= BYTES_MAX) return
  const most = `${BUNDLES_MAX} bundles of ${BYTES_MAX / GIB} GiB in all, unpacked`
  throw new Problem(bundlesFull, `A workspace has room for ${most}.`)
}

async function weighed(path: string) {
  try {
    return await measureUploaded(createReadStream(path))
  } catch (error) {
    if (error instanceof ArchiveRefused) throw new Problem(bundleRefused, error.message)
    throw error
  }
}

/** A harness that names it is being added: it must be there, and stays. */
export async function requireBundle({ db, blobs }: Tools, workspaceId: string, digest: string): Promise<void> {
  const blob = await rows.useBundle(db, workspaceId, digest)
  if (isDigest(blob) && (await blobs.find(blob))) return
  throw new Problem(bundleMissing, `There is no bundle ${digest}. Send its archive.`)
}

/** The archive as it was sent. Undefined: it is not there any more. */
export async function openBundle(
  { db, blobs }: Tools,
  workspaceId: string,
  digest: string,
): Promise<Readable | undefined> {
  const blob = await rows.useBundle(db, workspaceId, digest)
  if (blob === undefined) return undefined
  return openOwned(blobs, ownerOf(workspaceId), blob).catch((error: unknown) => {
    if (error instanceof BlobMissing) return undefined
    throw error
  })
}

const SWEEP_MAX = 100

/** Removes those that no harness names any more, nor a comparison that goes on with one that was removed. */
export async function sweepBundles({ db, blobs, isHarnessInUse }: Tools & HarnessUse): Promise<void> {
  for (const unused of await rows.listUnusedBundles(db, SWEEP_MAX)) {
    await transact(db, async (tx) => {
      for (const id of await rows.listNaming(tx, unused)) if (await isHarnessInUse(tx, unused.workspace_id, id)) return
      const blob = await rows.deleteUnusedBundle(tx, unused)
      if (isDigest(blob)) await blobs.remove(blob)
    })
  }
}
