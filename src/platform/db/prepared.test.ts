import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { testDatabase } from '../../../test/support/database.ts'
import { connect, executePrepared } from './db.ts'

test('prepares a query once per connection, whatever its values, and no other query', async () => {
  await using database = await testDatabase()
  const own = connect(database.url, { max: 1, onError: () => {} })
  for (const n of [1, 2, 3]) {
    expect((await executePrepared(own.db, sql`select ${n}::int * 2 as twice`)).rows).toEqual([{ twice: 2 * n }])
    expect((await sql`select ${n}::int * 3 as thrice`.execute(own.db)).rows).toEqual([{ thrice: 3 * n }])
  }
  const { rows } = await sql<{ statement: string }>`select statement from pg_prepared_statements`.execute(own.db)
  expect(rows.map(({ statement }) => statement)).toEqual(['select $1::int * 2 as twice'])
  await own.close()
})

test('prepared queries work in transactions, after an error and after their table has changed', async () => {
  await using database = await testDatabase()
  const own = connect(database.url, { max: 1, onError: () => {} })
  await sql`create table numbers (n integer not null)`.execute(own.db)
  const add = (db: typeof own.db, n: number | null) => executePrepared(db, sql`insert into numbers values (${n})`)
  const count = async () =>
    (await executePrepared(own.db, sql<{ count: number }>`select count(*)::int as count from numbers`)).rows[0]?.count
  await add(own.db, 1)
  await expect(add(own.db, null)).rejects.toThrow(/null/)
  await expect(
    own.db.transaction().execute(async (tx) => {
      await add(tx, 2)
      await add(tx, null)
    }),
  ).rejects.toThrow(/null/)
  expect(await count()).toBe(1)
  await sql`alter table numbers alter column n drop not null, add column m text`.execute(own.db)
  await add(own.db, null)
  expect(await count()).toBe(2)
  await own.close()
})
