import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { ArchiveRefused } from '../../harbor/archive-stream.ts'
import { measureUploaded } from '../../harnesses/bundles/unpack.ts'
import { BlobMissing, type Blobs, hashOwned, isDigest, openOwned, putOwned } from '../../platform/blobs/blob.ts'
import { createConcurrencyLimit } from '../../platform/concurrency.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { Problem } from '../../platform/problem.ts'
import { type AuditActor, record } from '../../workspaces/audit.ts'
import { bundleMissing, bundleRefused, bundlesFull, type SentBundle } from './schema.ts'
import * as rows from './sql.ts'

type BundleDeps = { db: Db; blobs: Blobs }
/** Tells whether unfinished work uses a harness. */
export type HarnessUse = { isHarnessInUse: (db: Db, workspaceId: string, id: string) => Promise<boolean> }
type ReceivedBundle = { path: string; digest: string; bytes: number }
type MeasuredBundle = { path: string; bundle: SentBundle }

const toOwner = (workspaceId: string): string => `harness bundle of ${workspaceId}`

/** Decompression of many bundles at once would occupy the threads that all requests share. */
const limitMeasurements = createConcurrencyLimit(2)

/** Checks an uploaded bundle and counts its files. Takes seconds for a large one. */
export async function measureBundle({ path, digest, bytes }: ReceivedBundle): Promise<SentBundle> {
  try {
    const measured = await limitMeasurements(() => measureUploaded(createReadStream(path)))
    const { entries, bytes: unpackedBytes } = measured
    return { digest, bytes, files: entries, unpackedBytes }
  } catch (error) {
    if (error instanceof ArchiveRefused) throw new Problem(bundleRefused, error.message)
    throw error
  }
}

/** Stores a bundle. The row comes first: a row without its blob is deleted later, a blob without a row never. */
export async function storeBundle(
  { db, blobs }: BundleDeps,
  by: AuditActor,
  { path, bundle }: MeasuredBundle,
): Promise<'stored' | 'same'> {
  const owner = toOwner(by.workspaceId)
  const blob = await hashOwned(owner, path)
  const isStored = (await blobs.find(blob)) !== undefined
  await transact(db, async (tx) => {
    await rows.lockBundles(tx, by.workspaceId)
    await requireQuota(tx, by.workspaceId, bundle)
    await rows.upsertBundle(tx, by.workspaceId, { ...bundle, blob })
    if (!isStored) await record(tx, { ...by, action: 'harness.bundle_sent', subject: bundle.digest })
  })
  await putOwned(blobs, owner, path, blob)
  return isStored ? 'same' : 'stored'
}

const GIB = 1024 ** 3
const BUNDLES_MAX = 100
const BYTES_MAX = 16 * GIB

/** Enforces the quota by unpacked size, which bundles take on every worker. */
async function requireQuota(tx: Db, workspaceId: string, { digest, unpackedBytes }: SentBundle): Promise<void> {
  const { count, bytes } = await rows.sumOtherBundles(tx, workspaceId, digest)
  if (count < BUNDLES_MAX && bytes + unpackedBytes <= BYTES_MAX) return
  const quota = `${BUNDLES_MAX} bundles with ${BYTES_MAX / GIB} GiB in total, unpacked`
  throw new Problem(bundlesFull, `A workspace can store at most ${quota}. Remove harnesses that you no longer need.`)
}

/** Requires that a bundle exists, and marks it as used by a new harness. */
export async function requireBundle({ db, blobs }: BundleDeps, workspaceId: string, digest: string): Promise<void> {
  const blob = await rows.markBundleUsed(db, workspaceId, digest)
  if (isDigest(blob) && (await blobs.find(blob))) return
  throw new Problem(bundleMissing, `Bundle ${digest} not found. Upload its archive.`)
}

/** Opens a bundle's archive. Returns undefined if it was deleted. */
export async function openBundle(
  { db, blobs }: BundleDeps,
  workspaceId: string,
  digest: string,
): Promise<Readable | undefined> {
  const blob = await rows.markBundleUsed(db, workspaceId, digest)
  if (blob === undefined) return undefined
  return openOwned(blobs, toOwner(workspaceId), blob).catch((error: unknown) => {
    if (error instanceof BlobMissing) return undefined
    throw error
  })
}

const SWEEP_MAX = 100

/**
 * Deletes bundles that no harness uses. A bundle of a removed harness is kept while an unfinished comparison uses that
 * harness.
 */
export async function deleteUnusedBundles({ db, blobs, isHarnessInUse }: BundleDeps & HarnessUse): Promise<void> {
  for (const unused of await rows.listUnusedBundles(db, SWEEP_MAX)) {
    await transact(db, async (tx) => {
      for (const id of await rows.listHarnessesWithBundle(tx, unused))
        if (await isHarnessInUse(tx, unused.workspace_id, id)) return
      const blob = await rows.deleteUnusedBundle(tx, unused)
      if (isDigest(blob)) await blobs.remove(blob)
    })
  }
}
