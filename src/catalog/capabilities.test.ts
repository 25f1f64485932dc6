import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { openComparisonLab, QUICK } from '../../test/support/comparisons.ts'
import { inBenchmark } from '../comparisons/schema.ts'
import { isSandboxAvailable, reportCapabilities, type TestableSandbox } from './capabilities.ts'

let app: TestApp
let folder: string
beforeAll(async () => {
  app = await testApp()
  folder = mkdtempSync(join(tmpdir(), 'assay-offers-'))
  await openComparisonLab(app)
  await app.database.pool.query('delete from sandbox_offers')
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})

type CapabilityChange = [sandbox: string, available: boolean]

function offering(sandboxes: TestableSandbox[], testMs = 1_000) {
  const changes: CapabilityChange[] = []
  const silent = { info: () => {}, warn: () => {}, error: () => {} }
  const offers = reportCapabilities(
    { db: app.database.db, log: silent, everyMs: 10, testMs },
    sandboxes,
    (sandbox, available) => void changes.push([sandbox, available]),
  )
  return { changes, [Symbol.asyncDispose]: () => offers.stop() }
}

const catalogSays = (id: string) =>
  expect.poll(async () => {
    const { body } = await app.call(inBenchmark.catalog, { params: QUICK })
    return body.sandboxes.find((sandbox: { id: string }) => sandbox.id === id)
  })

/** Works for as long as its engine is there: here, a file. */
const needing = (sandbox: string, engine: string): TestableSandbox => ({
  sandbox,
  test: async () => ({ isolation: (await readFile(join(folder, engine), 'utf8')).trim() }),
})

test('reports a sandbox as unavailable with the reason when its engine stops, and as available when it returns', async () => {
  writeFileSync(join(folder, 'engine'), 'strong\n')
  const offers = offering([needing('local', 'engine')])
  await catalogSays('local').toMatchObject({ available: true, isolation: 'strong', detail: '' })
  expect(await isSandboxAvailable(app.database.db, 'local')).toBe(true)

  rmSync(join(folder, 'engine'))
  await catalogSays('local').toMatchObject({
    available: false,
    isolation: null,
    detail: expect.stringContaining('ENOENT'),
  })
  expect(await isSandboxAvailable(app.database.db, 'local')).toBe(false)

  writeFileSync(join(folder, 'engine'), 'other\n')
  await catalogSays('local').toMatchObject({ available: true, isolation: 'other', detail: '' })
  expect(offers.changes).toEqual([
    ['local', true],
    ['local', false],
    ['local', true],
  ])
  await offers[Symbol.asyncDispose]()
  await catalogSays('local').toMatchObject({ available: false, detail: 'No worker has this sandbox at the moment.' })
})

test('an unresponsive sandbox becomes unavailable without delaying others', async () => {
  let hangs = false
  const works = async () => ({ isolation: 'strong' })
  const docker = { sandbox: 'docker', test: () => (hangs ? new Promise<never>(() => {}) : works()) }
  await using offers = offering([docker, { sandbox: 'local', test: works }], 50)
  await catalogSays('docker').toMatchObject({ available: true })
  hangs = true
  await catalogSays('docker').toMatchObject({ available: false, detail: 'No response within 50 ms.' })
  await catalogSays('local').toMatchObject({ available: true })
  hangs = false
  await catalogSays('docker').toMatchObject({ available: true })
  expect(offers.changes.filter(([sandbox]) => sandbox === 'local')).toEqual([['local', true]])
})

test('a sandbox stays available while another worker has it', async () => {
  writeFileSync(join(folder, 'here'), 'mine\n')
  writeFileSync(join(folder, 'there'), 'theirs\n')
  await using offers = offering([needing('local', 'here')])
  await using _others = offering([needing('local', 'there')])
  await expect.poll(() => offers.changes).toEqual([['local', true]])
  rmSync(join(folder, 'here'))
  await expect.poll(() => offers.changes).toHaveLength(2)
  await catalogSays('local').toMatchObject({ available: true, isolation: 'theirs' })
})

test('reports again after a database outage', async () => {
  writeFileSync(join(folder, 'engine'), 'strong\n')
  await app.database.pool.query('alter table sandbox_offers rename to gone')
  await using offers = offering([needing('local', 'engine')])
  await app.database.pool.query('alter table gone rename to sandbox_offers')
  await catalogSays('local').toMatchObject({ available: true })
  expect(offers.changes).toEqual([['local', true]])
})
