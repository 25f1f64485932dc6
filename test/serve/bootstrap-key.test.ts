import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { testDatabase } from '../support/database.ts'
import { startService } from '../support/service.ts'
import { freePort } from '../support/system-postgres.ts'

test('the bootstrap key works as soon as the API accepts connections', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bootstrap-'))
  await using undo = new AsyncDisposableStack()
  undo.defer(() => rmSync(folder, { recursive: true, force: true }))
  const database = undo.use(await testDatabase())
  const [port, key] = [await freePort(), newKey()]
  const holder = await database.pool.connect()
  await holder.query(`select pg_advisory_lock(hashtextextended('bootstrap', 0))`)

  const starting = startService('api', ['--data', folder, '--port', String(port)], {
    DATABASE_URL: database.url,
    ASSAY_BOOTSTRAP_KEY: key,
  })
  await vi.waitUntil(
    async () => {
      const { rows } = await database.pool.query(
        `select 1 from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())`,
      )
      return rows.length > 0
    },
    { timeout: 60_000 },
  )
  const early = await fetch(`http://127.0.0.1:${port}/healthz`).then(
    () => 'answered',
    () => 'refused',
  )
  await holder.query('select pg_advisory_unlock_all()')
  holder.release()
  const service = await starting
  undo.defer(async () => void (await service.kill('SIGTERM')))

  expect(early).toBe('refused')
  const keys = await fetch(`${service.url}/api/orgs/local/keys`, { headers: { authorization: `Bearer ${key}` } })
  expect(keys.status).toBe(200)
})
