import { sql } from 'kysely'
import { z } from 'zod'
import { type Db, lock } from '../../platform/db/db.ts'
import { beyond } from '../../platform/db/newest-first.ts'
import type { Page } from '../../platform/http/page.ts'
import type { NewHarness } from './schema.ts'

/** Until the end of the transaction nobody else adds or removes a harness of this name. */
export const lockSlug = (tx: Db, workspaceId: string, slug: string) => lock(tx, `custom harness ${workspaceId} ${slug}`)

const Stored = z.custom<NewHarness>()

const harnesses = (db: Db, workspaceId: string) =>
  db
    .selectFrom('custom_harnesses')
    .select(['id', 'version', 'description', 'created_at', 'removed_at'])
    .where('workspace_id', '=', workspaceId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')

export type HarnessRow = {
  id: string
  version: string
  description: NewHarness
  created_at: Date
  removed_at: Date | null
}

const rowOf = <R extends { description: unknown }>(row: R) => ({ ...row, description: Stored.parse(row.description) })

/** Every version, also of one that was removed, the newest first. */
export const listVersions = async (db: Db, workspaceId: string, slug: string): Promise<HarnessRow[]> =>
  (await harnesses(db, workspaceId).where('slug', '=', slug).execute()).map(rowOf)

export const listHarnessRows = async (db: Db, workspaceId: string, page: Page): Promise<HarnessRow[]> =>
  (
    await harnesses(db, workspaceId)
      .where('removed_at', 'is', null)
      .where(beyond('created_at', page))
      .limit(page.limit + 1)
      .execute()
  ).map(rowOf)

type Fresh = { id: string; workspace_id: string; slug: string; version: string }

export const insertHarness = async (tx: Db, fresh: Fresh, description: NewHarness): Promise<HarnessRow> =>
  rowOf(
    await tx
      .insertInto('custom_harnesses')
      .values({ ...fresh, description: JSON.stringify(description) })
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
