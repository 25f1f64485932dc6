import { sql } from 'kysely'
import { type Db, lock } from '../platform/db/db.ts'
import type { Page } from '../platform/http/page.ts'

/** Heard by everyone who keeps answers: `name` has changed, and so have all lists. */
export const CHANGED = 'assay_results'

/** Publishers of one name, one at a time: which of them is shown first depends on all. */
export const lockName = (tx: Db, nameKey: string) => lock(tx, `results ${nameKey}`)

export type NewLine = {
  repository: number
  name_key: string
  release_id: string
  released_at: Date
  publisher: string
  is_default: boolean
  search: string
  card: string
  line: string
}

/** In the place of all that was there. Told when the transaction ends. */
export async function replaceLines(tx: Db, nameKey: string, lines: readonly NewLine[]): Promise<void> {
  await tx.deleteFrom('result_lines').where('name_key', '=', nameKey).execute()
  for (const line of lines)
    await tx
      .insertInto('result_lines')
      .values(line)
      .onConflict((conflict) => conflict.column('repository').doUpdateSet(line))
      .execute()
  await sql`select pg_notify(${CHANGED}, ${nameKey})`.execute(tx)
}

export type LineRow = Awaited<ReturnType<typeof listLineRows>>[number]

/** The one that is shown first in front. */
export const listLineRows = (db: Db, nameKey: string) =>
  db
    .selectFrom('result_lines')
    .select(['repository', 'publisher', 'is_default', 'line'])
    .where('name_key', '=', nameKey)
    .orderBy('is_default', 'desc')
    .orderBy('released_at', 'desc')
    .orderBy('release_id', 'desc')
    .execute()

type Listing = Page & { q?: string | undefined }

export async function listCardRows(db: Db, { limit, cursor, q }: Listing) {
  const { rows } = await sql<{ card: string; released_at: Date; release_id: string }>`
    select card, released_at, release_id from result_lines
    where ${cursor ? sql`(released_at, release_id) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)` : sql`true`}
      and ${q ? sql`position(lower(${q}) in search) > 0` : sql`true`}
    order by released_at desc, release_id desc limit ${limit + 1}`.execute(db)
  return rows
}
