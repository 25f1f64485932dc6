import { type SelectQueryBuilder, sql } from 'kysely'
import type { Page } from '../http/page.ts'

/**
 * Sorts by the column `at` and then by id, newest first, and selects the page after the cursor plus one row, which tells
 * whether there is another page.
 */
export const pageNewestFirst =
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
