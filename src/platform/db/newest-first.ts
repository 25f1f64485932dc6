import { type SelectQueryBuilder, sql } from 'kysely'
import type { Page } from '../http/page.ts'

/**
 * A page of a list that is sorted by this column and then by id, newest first, beyond the last of the page before; and
 * one row more, which says whether there is another page.
 */
export const newestFirst =
  (at: string, { cursor, limit }: Page, idType: 'uuid' | 'bigint' = 'uuid') =>
  <DB, TB extends keyof DB, O>(query: SelectQueryBuilder<DB, TB, O>): SelectQueryBuilder<DB, TB, O> => {
    const sorted = query
      .orderBy(sql.ref(at), 'desc')
      .orderBy(sql.ref('id'), 'desc')
      .limit(limit + 1)
    if (cursor === undefined) return sorted
    return sorted.where(
      sql<boolean>`(${sql.ref(at)}, id) < (${cursor.at}::timestamptz, ${cursor.id}::${sql.raw(idType)})`,
    )
  }
