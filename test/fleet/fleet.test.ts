import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { enqueueAll } from '../../src/platform/jobs/jobs.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { testDatabase } from '../support/database.ts'
import { EFFECTS_TABLE, effectJobType } from '../support/effect-worker.ts'
import { startProgram } from '../support/program.ts'
import { startService } from '../support/service.ts'

const JOBS = process.env.ASSAY_TEST_LONG ? 10_000 : 1_000
const WORKER = new URL('../support/effect-worker.ts', import.meta.url).pathname

test(`two API and two worker processes on one PostgreSQL: ${JOBS} jobs, one worker killed, each job takes effect exactly once`, async () => {
  await using database = await testDatabase()
  await database.pool.query(EFFECTS_TABLE)
  const effects = async () => (await database.pool.query('select count(*)::int as n from effects')).rows[0].n
  const folder = mkdtempSync(join(tmpdir(), 'assay-fleet-'))
  const key = newKey()
  const environment = { DATABASE_URL: database.url, ASSAY_BOOTSTRAP_KEY: key, ASSAY_PORT: '0', ASSAY_DATA: folder }
  const [one, two, ...rest] = await Promise.all([
    startService('api', [], environment),
    startService('api', [], environment),
    startService('work', [], environment),
    startService('work', [], environment),
  ])
  const workers = await Promise.all([startProgram(WORKER, [database.url]), startProgram(WORKER, [database.url])])

  const jobs = Array.from({ length: JOBS }, (_, n) => ({ payload: { n, holdMs: n % 7 } }))
  await enqueueAll(database.db, effectJobType, jobs)
  await expect.poll(effects, { timeout: 60_000, interval: 5 }).toBeGreaterThan(JOBS / 4)
  await workers[0].kill('SIGKILL')
  const doneAtKill = await effects()
  expect(doneAtKill).toBeLessThan(JOBS)

  // Meanwhile one API process reads what the other writes.
  const made = await fetch(`${one.url}/api/orgs/local/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'made by one', permission: 'read' }),
  })
  const list = await fetch(`${two.url}/api/orgs/local/keys`, { headers: { authorization: `Bearer ${key}` } })
  expect(made.status).toBe(201)
  expect(await list.text()).toContain('made by one')

  await expect.poll(effects, { timeout: 90_000, interval: 100 }).toBe(JOBS)
  const { rows } = await database.pool.query('select count(distinct n)::int as n from effects')
  expect(rows[0].n).toBe(JOBS)
  const left = await database.pool.query(`select id from jobs where type = 'test.effect'`)
  expect(left.rowCount).toBe(0)
  const stopped = await Promise.all([one, two, ...rest].map((service) => service.kill('SIGTERM')))
  expect(stopped).toEqual([0, 0, 0, 0])
  await workers[1].kill('SIGKILL')
  console.log(`${JOBS} jobs, worker killed after ${doneAtKill}: each took effect once`)
  rmSync(folder, { recursive: true, force: true })
})
