import { type Selectable, sql } from 'kysely'
import { type Db, lock } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'

/** Notification channel. The payload is the name whose results changed; lists change with every notification. */
export const CHANGED_CHANNEL = 'assay_results'

/** Serializes publishers of one name, because the default line depends on all of them. */
export const lockName = (tx: Db, nameKey: string) => lock(tx, `results ${nameKey}`)

export type NewLine = Selectable<DB['result_lines']>

/** Replaces the lines of a name. Listeners are notified when the transaction commits. */
export async function replaceLines(tx: Db, nameKey: string, lines: readonly NewLine[]): Promise<void> {
  await tx.deleteFrom('result_lines').where('name_key', '=', nameKey).execute()
  for (const line of lines)
    await tx
      .insertInto('result_lines')
      .values(line)
      .onConflict((conflict) => conflict.column('repository').doUpdateSet(line))
      .execute()
  await sql`select pg_notify(${CHANGED_CHANNEL}, ${nameKey})`.execute(tx)
}

export type LineRow = Awaited<ReturnType<typeof listLineRows>>[number]

/** Lists the lines of a name, the default line first. */
export const listLineRows = (db: Db, nameKey: string) =>
  db
    .selectFrom('result_lines')
    .select(['repository', 'publisher', 'is_default', 'line', 'card'])
    .where('name_key', '=', nameKey)
    .orderBy('is_default', 'desc')
    .orderBy('released_at', 'desc')
    .orderBy('release_id', 'desc')
    .execute()

/** Lists lines whose search text contains this text, newest first. */
export async function searchLineRows(db: Db, text: string, limit: number) {
  const { rows } = await sql<{ line: string; card: string }>`
    select line, card from result_lines where position(lower(${text}) in search) > 0
    order by released_at desc, release_id desc limit ${limit}`.execute(db)
  return rows
}

type CardQuery = Page & { q?: string | undefined }

export async function listCardRows(db: Db, { limit, cursor, q }: CardQuery) {
  const { rows } = await sql<{ card: string; language: string | null; released_at: Date; release_id: string }>`
    select card, language, released_at, release_id from result_lines
    where ${cursor ? sql`(released_at, release_id) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)` : sql`true`}
      and ${q ? sql`position(lower(${q}) in search) > 0` : sql`true`}
    order by released_at desc, release_id desc limit ${limit + 1}`.execute(db)
  return rows
}
