import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import { ArchiveRefused } from '../harbor/archive-stream.ts'
import { measureUploaded } from '../harnesses/bundles/unpack.ts'
import { buildCustomHarness } from '../harnesses/custom-harness.ts'
import type { Harness } from '../harnesses/harness.ts'
import { findHarness, harnesses } from '../harnesses/harnesses.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import { BlobMissing, type Blobs, hashOwned, isDigest, openOwned, putOwned } from '../platform/blobs/blob.ts'
import { createConcurrencyLimit } from '../platform/concurrency.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import {
  bundleMissing,
  bundleRefused,
  bundlesFull,
  type CustomHarness,
  harnessExists,
  harnessInUse,
  harnessNameSpent,
  type NewHarness,
  type SentBundle,
} from './custom-harnesses/schema.ts'
import { findModelLevel, type Model, toTraits } from './model.ts'
import type { CatalogHarness } from './schema.ts'
import * as rows from './sql.ts'

/** Lists the harnesses of a workspace: built-in ones, then its own. */
export const listHarnesses = async (db: Db, workspaceId: string): Promise<Harness[]> => [
  ...harnesses,
  ...(await listCustomHarnesses(db, workspaceId)),
]

/** Finds the harness of a setting. */
export const findChosenHarness = async (
  db: Db,
  workspaceId: string,
  { id, version }: { id: string; version: string },
) => findHarness(id) ?? (await findCustomHarness(db, workspaceId, id, version))

export const toCatalogHarness = ({ id, name, version, protocols }: Harness): CatalogHarness => ({
  id,
  name,
  version,
  protocols: [...protocols],
})

/** Lists the reasoning levels that each harness supports with a model. Omits harnesses without any. */
export const listLevelsByHarness = (known: readonly Harness[], model: Model): Record<string, string[]> =>
  Object.fromEntries(
    known.flatMap((harness) => {
      const levels = model.levels.map(({ level }) => level).filter((level) => canDrive(harness, model, level))
      return levels.length > 0 ? [[harness.id, levels]] : []
    }),
  )

/**
 * Returns true if a harness can request exactly this level of a model. Controls such as `oracle` only run without a
 * model.
 */
export const canDrive = (harness: Harness, model: Model, level: string): boolean =>
  harness.isControl ? model.protocols.length === 0 : resolveProtocol(harness, model, level) !== undefined

/**
 * Returns the protocol and wire level that a harness uses with a model, for the grant and the harness. Returns undefined if
 * the harness cannot request this level of the model.
 */
export function resolveProtocol(harness: Harness, model: Model, level: string): ResolvedModelAccess | undefined {
  const modelLevel = findModelLevel(model, level)
  const protocol = modelLevel && harness.protocolFor(toTraits(model), modelLevel.level, modelLevel.wire)
  return protocol && { ...toTraits(model), protocol, level: modelLevel.level, wireLevel: modelLevel.wire }
}

type ResolvedModelAccess = Omit<ModelAccess, 'baseUrl' | 'token'>

export type CustomHarnessDeps = HarnessUse & { blobs: Blobs }

type AddedHarness = { kind: 'added' | 'same'; harness: CustomHarness }

/**
 * Adds a version of a harness. Versions are immutable, so a version can be added again only with the same description.
 */
export function addHarness(
  { blobs }: CustomHarnessDeps,
  db: Db,
  by: AuditActor,
  input: NewHarness,
): Promise<AddedHarness> {
  const slug = toHarnessSlug(input.id)
  return transact(db, async (tx) => {
    await rows.lockHarnessSlug(tx, by.workspaceId, slug)
    const versions = await rows.listVersions(tx, by.workspaceId, slug)
    if (versions[0]?.removed_at) throw new Problem(harnessNameSpent, `${input.id} was removed. Choose another id.`)
    const existing = versions.find(({ version }) => version === input.version)
    if (existing && !isDeepStrictEqual(existing.description, input))
      throw new Problem(
        harnessExists,
        `${input.id} ${input.version} exists with a different description. Choose another version.`,
      )
    if (existing) return { kind: 'same', harness: toCustomHarness(existing) }
    if (input.bundle) await requireBundle({ db: tx, blobs }, by.workspaceId, input.bundle.digest)
    const keys = { id: newId(), workspace_id: by.workspaceId, slug, version: input.version }
    const row = await rows.insertHarness(tx, keys, input)
    await record(tx, { ...by, action: 'harness.added', subject: input.id, detail: { version: input.version } })
    return { kind: 'added', harness: toCustomHarness(row) }
  })
}

export async function listHarnessPage(db: Db, workspaceId: string, page: Page) {
  const harnessRows = await rows.listHarnessRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(harnessRows, page.limit, toCreationCursor)
  return { harnesses: items.map(toCustomHarness), nextCursor }
}

/** Removes a harness with all its versions, unless unfinished work uses it. Its id cannot be reused. */
export async function removeHarness(
  { isHarnessInUse }: CustomHarnessDeps,
  db: Db,
  by: AuditActor,
  id: string,
): Promise<void> {
  await transact(db, async (tx) => {
    await rows.lockHarnessSlug(tx, by.workspaceId, toHarnessSlug(id))
    const [newest] = await rows.listVersions(tx, by.workspaceId, toHarnessSlug(id))
    if (!newest || newest.removed_at) throw new Problem(notFound, `Harness ${id} not found.`)
    if (await isHarnessInUse(tx, by.workspaceId, id))
      throw new Problem(harnessInUse, `An unfinished comparison uses ${id}.`)
    await rows.removeVersions(tx, by.workspaceId, toHarnessSlug(id))
    await record(tx, { ...by, action: 'harness.removed', subject: id })
  })
}

const HARNESSES_MAX = 1000

/** Lists the newest version of each custom harness. */
async function listCustomHarnesses(db: Db, workspaceId: string): Promise<Harness[]> {
  const harnessRows = await rows.listHarnessRows(db, workspaceId, { limit: HARNESSES_MAX })
  // Rows are sorted newest first. The last entry of a key wins in a Map, so the newest version must come last.
  const newest = new Map(harnessRows.toReversed().map(({ description }) => [description.id, description]))
  return [...newest.values()].map(buildCustomHarness)
}

/** Finds a version of a custom harness, also if it has been removed: comparisons may still use it. */
export async function findCustomHarness(db: Db, workspaceId: string, id: string, version: string) {
  if (!isCustomHarness(id)) return undefined
  const versions = await rows.listVersions(db, workspaceId, toHarnessSlug(id))
  const row = versions.find((each) => each.version === version)
  return row && buildCustomHarness(row.description)
}

export const isCustomHarness = (id: string): boolean => id.startsWith(PREFIX)

const PREFIX = 'custom/'
const toHarnessSlug = (id: string): string => id.slice(PREFIX.length)

const toCustomHarness = (row: rows.HarnessRow): CustomHarness => ({
  ...row.description,
  createdAt: row.created_at.toISOString(),
})

type BundleDeps = { db: Db; blobs: Blobs }
/** Tells whether unfinished work uses a harness. */
type HarnessUse = { isHarnessInUse: (db: Db, workspaceId: string, id: string) => Promise<boolean> }
type ReceivedBundle = { path: string; digest: string; bytes: number }
type MeasuredBundle = { path: string; bundle: SentBundle }

const toOwner = (workspaceId: string): string => `harness bundle of ${workspaceId}`

/** Limits the bundles that are measured at once: decompression occupies the threads that all requests share. */
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
const UNPACKED_BYTES_MAX = 16 * GIB

/** Enforces the quota by unpacked size, which bundles take on every worker. */
async function requireQuota(tx: Db, workspaceId: string, { digest, unpackedBytes }: SentBundle): Promise<void> {
  const { count, bytes } = await rows.sumOtherBundles(tx, workspaceId, digest)
  if (count < BUNDLES_MAX && bytes + unpackedBytes <= UNPACKED_BYTES_MAX) return
  const quota = `${BUNDLES_MAX} bundles with ${UNPACKED_BYTES_MAX / GIB} GiB in total, unpacked`
  throw new Problem(bundlesFull, `A workspace can store at most ${quota}. Remove harnesses that you no longer need.`)
}

/** Throws if a bundle does not exist. Otherwise marks it as used, so that the sweep keeps it for the new harness. */
async function requireBundle({ db, blobs }: BundleDeps, workspaceId: string, digest: string): Promise<void> {
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
