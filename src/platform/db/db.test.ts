import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect as dial } from 'node:net'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { testDatabase } from '../../../test/support/database.ts'
import { connect, isDatabaseUnavailable, transact } from './db.ts'
import { listPendingMigrations, migrate } from './migrate.ts'

test('runs each migration once, however many processes start at the same time', async () => {
  await using database = await testDatabase()
  const ran = await Promise.all([migrate(database.db), migrate(database.db), migrate(database.db)])
  expect(ran).toEqual([[], [], []])
  expect(await listPendingMigrations(database.db)).toEqual([])
})

test('a nested transaction joins the open one', async () => {
  await using database = await testDatabase()
  const ids = await transact(database.db, async (outer) => {
    const id = sql<{ id: string }>`select pg_current_xact_id()::text as id`
    const first = await id.execute(outer)
    const second = await transact(outer, (inner) => id.execute(inner))
    return [first.rows[0]?.id, second.rows[0]?.id]
  })
  expect(ids[0]).toBe(ids[1])
})

test('reports the loss of an idle connection and keeps the pool usable', async () => {
  await using database = await testDatabase()
  const { promise, resolve } = Promise.withResolvers<Error>()
  const other = connect(database.url, { max: 1, onError: resolve })
  const pid = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(other.db)
  await sql`select pg_terminate_backend(${pid.rows[0]?.pid})`.execute(database.db)
  expect((await promise).message).toMatch(/terminat/)
  expect((await sql<{ one: number }>`select 1 as one`.execute(other.db)).rows).toEqual([{ one: 1 }])
  await other.close()
})

test('losing a connection fails the open transaction and nothing else', async () => {
  await using database = await testDatabase()
  const broken = transact(database.db, async (tx) => {
    const pid = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx)
    await sql`select pg_terminate_backend(${pid.rows[0]?.pid})`.execute(database.db)
    await new Promise((resolve) => setImmediate(resolve))
    await sql`select 1`.execute(tx)
  })
  expect(isDatabaseUnavailable(await broken.catch((error: unknown) => error))).toBe(true)
  expect((await sql<{ one: number }>`select 1 as one`.execute(database.db)).rows).toEqual([{ one: 1 }])
})

test('treats a missing socket as an unavailable database, a missing file as another error', async () => {
  const noSocket = await once(dial('/nowhere/.s.PGSQL.5432'), 'connect').catch((error: unknown) => error)
  const noFile = await readFile('/nowhere').catch((error: unknown) => error)
  expect([noSocket, noFile]).toMatchObject([{ code: 'ENOENT' }, { code: 'ENOENT' }])
  expect([isDatabaseUnavailable(noSocket), isDatabaseUnavailable(noFile)]).toEqual([true, false])
})
