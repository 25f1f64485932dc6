import { type Insertable, sql } from 'kysely'
import { z } from 'zod'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { CustomModels } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'
import type { NewHarness, SentBundle } from './custom-harnesses/schema.ts'
import type { CustomModel } from './schema.ts'

export type WorkerCapability = { sandbox: string; available: boolean; isolation: string; detail: string }

export const upsertCapability = (db: Db, workerId: string, capability: WorkerCapability) =>
  db
    .insertInto('sandbox_offers')
    .values({ worker_id: workerId, ...capability })
    .onConflict((conflict) =>
      conflict.columns(['worker_id', 'sandbox']).doUpdateSet({ ...capability, seen_at: sql<Date>`now()` }),
    )
    .execute()

export const deleteCapabilities = (db: Db, workerId: string) =>
  db.deleteFrom('sandbox_offers').where('worker_id', '=', workerId).execute()

export const deleteStaleCapabilities = (db: Db) =>
  db.deleteFrom('sandbox_offers').where('seen_at', '<', sql<Date>`now() - interval '1 hour'`).execute()

/** Lists the best report per sandbox: an available one before others, then the most recent. */
export const listLiveCapabilityRows = (db: Db, withinSeconds: number): Promise<WorkerCapability[]> =>
  db
    .selectFrom('sandbox_offers')
    .distinctOn('sandbox')
    .select(['sandbox', 'available', 'isolation', 'detail'])
    .where('seen_at', '>', sql<Date>`now() - make_interval(secs => ${withinSeconds})`)
    .orderBy('sandbox')
    .orderBy('available', 'desc')
    .orderBy('seen_at', 'desc')
    .execute()

/** Counts the workers that can run a sandbox. */
export async function countLiveWorkerRows(db: Db, sandbox: string, withinSeconds: number): Promise<number> {
  const { workers } = await db
    .selectFrom('sandbox_offers')
    .select(({ fn }) => fn.countAll<number>().as('workers'))
    .where('sandbox', '=', sandbox)
    .where('available', '=', true)
    .where('seen_at', '>', sql<Date>`now() - make_interval(secs => ${withinSeconds})`)
    .executeTakeFirstOrThrow()
  return Number(workers)
}

/** Locks a model name until the end of the transaction. */
export const lockModelSlug = (tx: Db, workspaceId: string, slug: string) =>
  lock(tx, `custom model ${workspaceId} ${slug}`)

const StoredPrices = z.custom<CustomModel['prices']>()

/** Selects models with their newest prices. */
const selectModels = (db: Db) =>
  db
    .selectFrom('custom_models')
    .innerJoinLateral(
      (query) =>
        query
          .selectFrom('custom_model_prices')
          .select(['version', 'prices'])
          .whereRef('model', '=', 'custom_models.id')
          .orderBy('version', 'desc')
          .limit(1)
          .as('newest'),
      (join) => join.onTrue(),
    )
    .selectAll('custom_models')
    .select(['newest.version', 'newest.prices'])

const toModelRow = <R extends { prices: unknown }>(row: R) => ({ ...row, prices: StoredPrices.parse(row.prices) })

export type ModelRow = NonNullable<Awaited<ReturnType<typeof findModelRow>>>

export async function findModelRow(db: Db, workspaceId: string, slug: string) {
  const row = await selectModels(db).where('workspace_id', '=', workspaceId).where('slug', '=', slug).executeTakeFirst()
  return row && toModelRow(row)
}

export const readModelRow = async (db: Db, id: string) =>
  toModelRow(await selectModels(db).where('id', '=', id).executeTakeFirstOrThrow())

export async function listModelRows(db: Db, workspaceId: string, page: Page) {
  const modelRows = await selectModels(db)
    .where('workspace_id', '=', workspaceId)
    .where('removed_at', 'is', null)
    .$call(pageNewestFirst('created_at', page))
    .execute()
  return modelRows.map(toModelRow)
}

export const insertModelRow = (tx: Db, model: Omit<Insertable<CustomModels>, 'created_at' | 'removed_at'>) =>
  tx.insertInto('custom_models').values(model).execute()

export const insertPrices = (tx: Db, model: string, version: number, prices: CustomModel['prices']) =>
  tx
    .insertInto('custom_model_prices')
    .values({ model, version, prices: JSON.stringify(prices) })
    .execute()

export const updateModelRow = (tx: Db, id: string, change: Pick<Insertable<CustomModels>, 'label' | 'default_level'>) =>
  tx.updateTable('custom_models').set(change).where('id', '=', id).execute()

export const removeModelRow = (tx: Db, id: string) =>
  tx.updateTable('custom_models').set({ removed_at: sql<Date>`now()` }).where('id', '=', id).execute()

/** Locks a harness name until the end of the transaction. */
export const lockHarnessSlug = (tx: Db, workspaceId: string, slug: string) =>
  lock(tx, `custom harness ${workspaceId} ${slug}`)

const StoredDescription = z.custom<NewHarness>()

const selectHarnesses = (db: Db, workspaceId: string) =>
  db
    .selectFrom('custom_harnesses')
    .select(['id', 'version', 'description', 'created_at', 'removed_at'])
    .where('workspace_id', '=', workspaceId)

export type HarnessRow = {
  id: string
  version: string
  description: NewHarness
  created_at: Date
  removed_at: Date | null
}

const toHarnessRow = <R extends { description: unknown }>(row: R) => ({
  ...row,
  description: StoredDescription.parse(row.description),
})

/** Lists every version, newest first, also of a removed harness. */
export const listVersions = async (db: Db, workspaceId: string, slug: string): Promise<HarnessRow[]> =>
  (
    await selectHarnesses(db, workspaceId)
      .where('slug', '=', slug)
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .execute()
  ).map(toHarnessRow)

export const listHarnessRows = async (db: Db, workspaceId: string, page: Page): Promise<HarnessRow[]> =>
  (
    await selectHarnesses(db, workspaceId)
      .where('removed_at', 'is', null)
      .$call(pageNewestFirst('created_at', page))
      .execute()
  ).map(toHarnessRow)

type HarnessKeys = { id: string; workspace_id: string; slug: string; version: string }

export const insertHarness = async (tx: Db, keys: HarnessKeys, description: NewHarness): Promise<HarnessRow> =>
  toHarnessRow(
    await tx
      .insertInto('custom_harnesses')
      .values({ ...keys, description: JSON.stringify(description) })
      .returning(['id', 'version', 'description', 'created_at', 'removed_at'])
      .executeTakeFirstOrThrow(),
  )

export const removeVersions = (tx: Db, workspaceId: string, slug: string) =>
  tx
    .updateTable('custom_harnesses')
    .set({ removed_at: sql<Date>`now()` })
    .where('workspace_id', '=', workspaceId)
    .where('slug', '=', slug)
    .execute()

type BundleRow = SentBundle & { blob: string }

/** Upserts a bundle and marks it as used. A concurrent deletion of unused bundles blocks on this row and then skips it. */
export const upsertBundle = (tx: Db, workspaceId: string, { unpackedBytes, ...bundle }: BundleRow) =>
  tx
    .insertInto('harness_bundles')
    .values({ workspace_id: workspaceId, unpacked_bytes: unpackedBytes, ...bundle })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'digest']).doUpdateSet({ used_at: sql<Date>`now()` }))
    .execute()

/** Marks a bundle as used and returns its blob. */
export const markBundleUsed = async (tx: Db, workspaceId: string, digest: string): Promise<string | undefined> =>
  (
    await tx
      .updateTable('harness_bundles')
      .set({ used_at: sql<Date>`now()` })
      .where('workspace_id', '=', workspaceId)
      .where('digest', '=', digest)
      .returning('blob')
      .executeTakeFirst()
  )?.blob

/** Serialises uploads of bundles to a workspace until the end of the transaction. */
export const lockBundles = (tx: Db, workspaceId: string) => lock(tx, `harness bundles ${workspaceId}`)

/** Sums up the bundles of the workspace except this one. */
export const sumOtherBundles = (tx: Db, workspaceId: string, digest: string) =>
  tx
    .selectFrom('harness_bundles')
    .select(sql<number>`count(*)::int`.as('count'))
    .select(sql<number>`coalesce(sum(unpacked_bytes), 0)::bigint`.as('bytes'))
    .where('workspace_id', '=', workspaceId)
    .where('digest', '<>', digest)
    .executeTakeFirstOrThrow()

const IS_UNUSED = sql<boolean>`used_at < now() - interval '1 day' and not exists (
  select from custom_harnesses where custom_harnesses.workspace_id = harness_bundles.workspace_id
    and custom_harnesses.description -> 'bundle' ->> 'digest' = harness_bundles.digest
    and (removed_at is null or removed_at > now() - interval '1 day'))`

type BundleKey = { workspace_id: string; digest: string }

export const listUnusedBundles = (db: Db, limit: number) =>
  db.selectFrom('harness_bundles').select(['workspace_id', 'digest']).where(IS_UNUSED).limit(limit).execute()

export const deleteUnusedBundle = async (tx: Db, { workspace_id, digest }: BundleKey) =>
  (
    await tx
      .deleteFrom('harness_bundles')
      .where('workspace_id', '=', workspace_id)
      .where('digest', '=', digest)
      .where(IS_UNUSED)
      .returning('blob')
      .executeTakeFirst()
  )?.blob

/** Lists harnesses with a version that uses the bundle, also removed ones. */
export const listHarnessesWithBundle = async (tx: Db, { workspace_id, digest }: BundleKey): Promise<string[]> =>
  (
    await tx
      .selectFrom('custom_harnesses')
      .select(sql<string>`'custom/' || slug`.as('id'))
      .distinct()
      .where('workspace_id', '=', workspace_id)
      .where(sql<boolean>`description -> 'bundle' ->> 'digest' = ${digest}`)
      .execute()
  ).map(({ id }) => id)
