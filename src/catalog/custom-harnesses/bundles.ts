import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { ArchiveRefused } from '../../harbor/archive-refused.ts'
import { weighSent } from '../../harnesses/bundles/sent-archive.ts'
import { BlobMissing, type Blobs, isDigest } from '../../platform/blobs/blob.ts'
import { openOwned, ownedDigest, putOwned } from '../../platform/blobs/owned-blob.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { Problem } from '../../platform/problem.ts'
import { type By, record } from '../../workspaces/audit.ts'
import { bundleMissing, bundleRefused, type SentBundle } from './schema.ts'
import * as rows from './sql.ts'

type Tools = { db: Db; blobs: Blobs }
type Sent = { path: string; digest: string; bytes: number }

const ownerOf = (workspaceId: string): string => `harness bundle of ${workspaceId}`

/** Looked through to its end before it is kept. The row first: a row without its blob goes one day, a blob without a row never. */
export async function keepBundle({ db, blobs }: Tools, by: By, { path, digest, bytes }: Sent) {
  const { entries, bytes: unpackedBytes } = await weighed(path)
  const owner = ownerOf(by.workspaceId)
  const blob = await ownedDigest(owner, path)
  const bundle: SentBundle = { digest, bytes, files: entries, unpackedBytes }
  const isThere = (await blobs.find(blob)) !== undefined
  await transact(db, async (tx) => {
    await rows.noteBundle(tx, by.workspaceId, { ...bundle, blob })
    if (!isThere) await record(tx, { ...by, action: 'harness.bundle_sent', subject: digest })
  })
  await putOwned(blobs, owner, path, blob)
  return { kind: isThere ? ('same' as const) : ('kept' as const), bundle }
}

async function weighed(path: string) {
  try {
    return await weighSent(createReadStream(path))
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

/** Removes those that no harness names. */
export async function sweepBundles({ db, blobs }: Tools): Promise<void> {
  for (const unused of await rows.listUnusedBundles(db, SWEEP_MAX)) {
    await transact(db, async (tx) => {
      const blob = await rows.deleteUnusedBundle(tx, unused)
      if (isDigest(blob)) await blobs.remove(blob)
    })
  }
}
