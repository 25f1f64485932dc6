import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { testApp } from '../../../test/support/app.ts'
import { buildArchive, smallTask } from '../../../test/support/archives.ts'
import { testDatabase } from '../../../test/support/database.ts'
import { sendBundle } from '../../catalog/custom-harnesses/schema.ts'
import { readWorkspace } from '../../workspaces/schema.ts'
import { lock, transact } from '../db/db.ts'

const CONNECTIONS = 8
const UPLOADS = 12

test('uploads with an Idempotency-Key that cannot go on leave connections for other requests', async () => {
  await using database = await testDatabase({ max: CONNECTIONS })
  await using other = await testDatabase()
  await using app = await testApp({}, database)
  const { rows } = await database.pool.query('select id from workspaces where login = $1', ['local'])
  const release = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  // The uploads wait in their transactions, as they would for a slow disk.
  const holding = transact(database.db, async (tx) => {
    await lock(tx, `harness bundles ${rows[0].id}`)
    locked.resolve()
    await release.promise
  })
  await locked.promise

  const upload = buildArchive({ hello: smallTask() })
  const sent = Array.from({ length: UPLOADS }, (_, index) =>
    app.call(sendBundle, { upload, headers: { 'idempotency-key': `upload-${index}` } }),
  )
  const name = new URL(database.url).pathname.slice(1)
  const countWaiting = async (): Promise<number> => {
    const waiting = await other.pool.query(
      `select count(*)::int from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'`,
      [name],
    )
    return waiting.rows[0].count
  }
  await expect.poll(countWaiting, { timeout: 20_000 }).toBeGreaterThanOrEqual(4)
  expect((await app.call(readWorkspace)).status).toBe(200)

  release.resolve()
  await holding
  expect(new Set((await Promise.all(sent)).map(({ status }) => status))).toEqual(new Set([200, 201]))
})

test('a bundle that is refused leaves its Idempotency-Key free', async () => {
  await using app = await testApp()
  const headers = { 'idempotency-key': 'first' }
  const refused = await app.call(sendBundle, { upload: gzipSync('no archive'), headers })
  expect(refused).toMatchObject({ status: 422, body: { code: 'bundle_refused' } })
  const upload = buildArchive({ hello: smallTask() })
  expect((await app.call(sendBundle, { upload, headers })).status).toBe(201)
})
