import { sql } from 'kysely'
import { z } from 'zod'
import { type Db, lock, pageNewestFirst } from '../../platform/db/db.ts'
import type { Page } from '../../platform/http/page.ts'
import type { NewHarness, SentBundle } from './schema.ts'

/** Locks a harness name until the end of the transaction. */
export const lockSlug = (tx: Db, workspaceId: string, slug: string) => lock(tx, `custom harness ${workspaceId} ${slug}`)

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
