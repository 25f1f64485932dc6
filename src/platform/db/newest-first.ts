import { type RawBuilder, sql } from 'kysely'
import type { Page } from '../http/page.ts'

/** Rows beyond the last of the page before, in a list that is sorted by this column and then by id, newest first. */
export const beyond = (at: string, { cursor }: Page, idType: 'uuid' | 'bigint' = 'uuid'): RawBuilder<boolean> =>
  cursor === undefined
    ? sql`true`
    : sql`(${sql.ref(at)}, id) < (${cursor.at}::timestamptz, ${cursor.id}::${sql.raw(idType)})`
