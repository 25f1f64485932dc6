import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { type ComparisonLab, createScriptedEngine, openComparisonLab, QUICK } from '../../test/support/comparisons.ts'
import { isHarnessInUse } from '../comparisons/comparisons.ts'
import { inBenchmark } from '../comparisons/schema.ts'
import { createCredential } from '../credentials/schema.ts'
import { createKey } from '../workspaces/schema.ts'
import { addHarness, listHarnesses, type NewHarness, removeHarness, sendBundle } from './custom-harnesses/schema.ts'
import { deleteUnusedBundles, findChosenHarness, openBundle } from './harnesses.ts'
import { addModel } from './schema.ts'

let app: TestApp
let lab: ComparisonLab
const engine = createScriptedEngine()
beforeAll(async () => {
  app = await testApp()
  lab = await openComparisonLab(app, engine)
})
afterAll(async () => app[Symbol.asyncDispose]())

let made = 0
const options = (over: object = {}): z.input<typeof NewHarness> => ({
  id: `custom/agent-${++made}`,
  name: 'Agent',
  version: '1.0',
  protocols: ['openai-chat'],
  levels: { low: 'low' },
  command: ['/opt/agent', '{model}'],
  ...over,
})
const add = (body: z.input<typeof NewHarness>) => app.call(addHarness, { body })
const slug = ({ id }: { id: string }) => ({ params: { slug: id.slice('custom/'.length) } })
const inCatalog = async () => (await app.call(inBenchmark.catalog, { params: QUICK })).body

test('a harness is described, listed, and in the catalog in its newest version', async () => {
  const body = options()
  expect(await add(body)).toMatchObject({ status: 201, body: { ...body, env: {}, files: [] } })
  expect(await add(body)).toMatchObject({ status: 200 })
  expect(await add({ ...body, command: ['other'] })).toMatchObject({ status: 409, body: { code: 'harness_exists' } })
  expect(await add({ ...body, command: ['other'], version: '1.1' })).toMatchObject({ status: 201 })
  const versions = (await app.call(listHarnesses)).body.harnesses.map(({ version }: { version: string }) => version)
  expect(versions.slice(0, 2)).toEqual(['1.1', '1.0'])
  const { harnesses } = await inCatalog()
  expect(harnesses.filter(({ id }: { id: string }) => id === body.id)).toEqual([
    { id: body.id, name: 'Agent', version: '1.1', protocols: ['openai-chat'] },
  ])
})

test.each([
  [{ id: 'house/agent' }, '/id'],
  [{ id: 'custom/a/b' }, '/id'],
  [{ version: '' }, '/version'],
  [{ protocols: [] }, '/protocols'],
  [{ levels: { deep: 'x' } }, '/levels'],
  [{ command: [] }, '/command'],
  [{ env: { 'A=B': 'x' } }, '/env'],
  [{ files: [{ path: '../etc/passwd', text: '' }] }, '/files/0/path'],
  [{ files: [{ path: '/etc/passwd', text: '' }] }, '/files/0/path'],
  [{ files: [{ path: 'a/./b', text: '' }] }, '/files/0/path'],
  [{ files: [{ path: 'instruction.md', text: '' }] }, '/files/0/path'],
])('%j is refused', async (over, pointer) => {
  const { status, body } = await add(options(over))
  expect(status).toBe(422)
  expect(body.errors[0].pointer).toContain(pointer)
})

test('a comparison uses the chosen version, which cannot be removed meanwhile', async () => {
  const body = options()
  await add(body)
  const catalogId = 'custom/house'
  await app.call(addModel, {
    body: {
      catalogId,
      name: 'house-v1',
      label: 'House',
      protocol: 'openai-chat',
      baseUrl: 'https://models.example.com',
      reasoningLevels: ['low', 'high'],
      defaultReasoningLevel: 'low',
      prices: { input: 1, output: 2 },
    },
  })
  const secret = { apiKey: 'sk-house-0123456789' }
  const { body: credential } = await app.call(createCredential, {
    body: { kind: 'model', provider: catalogId, name: 'Own', secret },
  })
  const choice = { catalogId, credentialId: credential.id, harnesses: [body.id] }
  const created = await lab.create({ models: [choice] })
  expect(created).toMatchObject({
    status: 202,
    body: { settings: [{ harness: body.id, harnessVersion: '1.0', custom: true }] },
  })
  expect(await app.call(removeHarness, slug(body))).toMatchObject({ status: 409, body: { code: 'harness_in_use' } })
  await add({ ...body, version: '2.0', command: ['new'] })
  await lab.work()
  expect(engine.orders.at(-1)).toMatchObject({ harness: body.id, harnessVersion: '1.0' })
  const far = await lab.create({ models: [{ ...choice, reasoningLevel: 'high' }] })
  expect(far).toMatchObject({ status: 422, body: { errors: [{ code: 'level_out_of_reach' }] } })

  expect(await app.call(removeHarness, slug(body))).toMatchObject({ status: 204 })
  expect(await app.call(removeHarness, slug(body))).toMatchObject({ status: 404 })
  expect(await add(body)).toMatchObject({ status: 409, body: { code: 'harness_name_spent' } })
  const { rows } = await app.database.pool.query('select id from workspaces where login = $1', ['local'])
  const chosen = await findChosenHarness(app.database.db, rows[0].id, { id: body.id, version: '1.0' })
  expect(chosen).toMatchObject({ id: body.id, version: '1.0' })
})

/** A program, as a folder that was packed. */
async function packed(
  make: (place: string) => void = (place) => writeFileSync(join(place, 'run'), `${Math.random()}`),
) {
  const place = mkdtempSync(join(tmpdir(), 'assay-bundle-'))
  make(place)
  const bytes = await buffer(create({ gzip: true, cwd: place }, ['.']))
  rmSync(place, { recursive: true })
  return bytes
}
const send = (upload: Uint8Array, more: object = {}) => app.call(sendBundle, { upload, ...more })
/** Announces an upload of this size, sends none of it, and returns the status of the response. */
async function announce(bytes: number): Promise<number | undefined> {
  const headers = {
    authorization: `Bearer ${app.adminKey}`,
    'content-type': 'application/gzip',
    'content-length': String(bytes),
  }
  const sent = request(`${app.url}/api/orgs/local/harnesses/bundles`, { method: sendBundle.method, headers })
  sent.flushHeaders()
  const [response] = await once(sent, 'response')
  sent.on('error', () => {}).destroy()
  return response.statusCode
}
const withBundle = (digest: string) => options({ bundle: { digest, probe: ['{bundle}/run', '--version'] } })

test('a bundle is uploaded once, identified by its digest, and available to workers', async () => {
  const bytes = await packed()
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  const { status, body } = await send(bytes)
  expect([status, body]).toEqual([201, { digest, bytes: bytes.length, files: 1, unpackedBytes: expect.any(Number) }])
  expect(await send(bytes)).toMatchObject({ status: 200, body })
  const harness = withBundle(digest)
  expect(await add(harness)).toMatchObject({ status: 201, body: { bundle: { digest, node: false } } })
  const { rows } = await app.database.pool.query('select id from workspaces where login = $1', ['local'])
  const tools = { db: app.database.db, blobs: app.tools.blobs }
  const opened = await openBundle(tools, rows[0].id, digest)
  expect(opened && (await buffer(opened))).toEqual(bytes)
  const chosen = await findChosenHarness(tools.db, rows[0].id, { id: harness.id, version: '1.0' })
  expect(chosen?.bundle).toMatchObject({ parts: [{ digest }], probe: ['/assay/bundle/run', '--version'] })
})

test('a bundle cannot be used by another workspace or after its deletion', async () => {
  const { body } = await send(await packed())
  const other = await app.otherWorkspace('bundle-neighbour')
  const params = { org: other.login }
  const refused = { status: 422, body: { code: 'bundle_missing' } }
  expect(await app.call(addHarness, { params, key: other.key, body: withBundle(body.digest) })).toMatchObject(refused)
  expect(await add(withBundle(`sha256:${'0'.repeat(64)}`))).toMatchObject(refused)

  const tools = { db: app.database.db, blobs: app.tools.blobs }
  const { body: used } = await send(await packed())
  await add(withBundle(used.digest))
  await app.database.pool.query("update harness_bundles set used_at = now() - interval '2 days'")
  const { rows: before } = await app.database.pool.query('select blob from harness_bundles where digest = $1', [
    body.digest,
  ])
  await deleteUnusedBundles({ ...tools, isHarnessInUse })
  expect(await add(withBundle(body.digest))).toMatchObject(refused)
  expect(await tools.blobs.find(before[0].blob)).toBeUndefined()
  expect(await add(withBundle(used.digest))).toMatchObject({ status: 201 })
})

test('an unused bundle is deleted after a day, not during a comparison, and can be uploaded again', async () => {
  const bytes = await packed()
  const { body } = await send(bytes)
  const [first, second] = [withBundle(body.digest), withBundle(body.digest)]
  await add(first)
  await add(second)
  const { pool, db } = app.database
  const tools = { db, blobs: app.tools.blobs, isHarnessInUse }
  const isThereAfterSweep = async (used = isHarnessInUse) => {
    await pool.query("update harness_bundles set used_at = now() - interval '3 days'")
    await deleteUnusedBundles({ ...tools, isHarnessInUse: used })
    return (await pool.query('select from harness_bundles where digest = $1', [body.digest])).rows.length > 0
  }
  await app.call(removeHarness, slug(first))
  await pool.query("update custom_harnesses set removed_at = removed_at - interval '2 days'")
  expect(await isThereAfterSweep()).toBe(true)
  await app.call(removeHarness, slug(second))
  expect(await isThereAfterSweep()).toBe(true)
  await pool.query("update custom_harnesses set removed_at = removed_at - interval '2 days'")
  expect(await isThereAfterSweep(async (_db, _workspace, id) => id === second.id)).toBe(true)
  const { rows } = await pool.query('select blob from harness_bundles where digest = $1', [body.digest])
  expect(await isThereAfterSweep()).toBe(false)
  expect(await tools.blobs.find(rows[0].blob)).toBeUndefined()

  // Who resumes a comparison of before needs the program, though no harness names it any more.
  const { rows: workspaces } = await pool.query('select id from workspaces where login = $1', ['local'])
  expect(await openBundle(tools, workspaces[0].id, body.digest)).toBeUndefined()
  expect((await send(bytes)).status).toBe(201)
  const opened = await openBundle(tools, workspaces[0].id, body.digest)
  expect(opened && (await buffer(opened))).toEqual(bytes)
})

test('enforces the bundle quota, and existing bundles count once', async () => {
  const other = await app.otherWorkspace('bundle-collector')
  const own = { params: { org: other.login }, key: other.key }
  const bytes = await packed()
  expect((await send(bytes, own)).status).toBe(201)
  const { pool } = app.database
  const full = { status: 409, body: { code: 'bundles_full' } }
  await pool.query('update harness_bundles set unpacked_bytes = 16 * 1024::bigint ^ 3 where workspace_id = $1', [
    other.id,
  ])
  expect(await send(await packed(), own)).toMatchObject(full)
  expect(await send(bytes, own)).toMatchObject({ status: 200 })
  expect((await send(await packed())).status).toBe(201)
  await pool.query('update harness_bundles set unpacked_bytes = 1 where workspace_id = $1', [other.id])
  expect((await send(await packed(), own)).status).toBe(201)
  await pool.query(
    `insert into harness_bundles (workspace_id, digest, blob, bytes, files, unpacked_bytes)
     select $1, 'sha256:' || n, 'sha256:' || n, 1, 1, 1 from generate_series(1, 98) n`,
    [other.id],
  )
  expect(await send(await packed(), own)).toMatchObject(full)
})

test.each<[string, (place: string) => void]>([
  ['a link that leads out', (place) => symlinkSync('../x', join(place, 'link'))],
  ['nothing', () => {}],
])('an archive with %s is refused, and nothing is kept', async (_, make) => {
  expect(await send(await packed(make))).toMatchObject({ status: 422, body: { code: 'bundle_refused' } })
})

test('rejects uploads without permission or with other content', async () => {
  const bytes = await packed()
  expect(await send(bytes, { key: null })).toMatchObject({ status: 401 })
  const { body: reader } = await app.call(createKey, { body: { name: 'writer', permission: 'write' } })
  expect(await send(bytes, { key: reader.key })).toMatchObject({ status: 403 })
  expect(await send(bytes, { params: { org: 'nobody' } })).toMatchObject({ status: 404 })
  expect(await send(Buffer.from('hello'))).toMatchObject({ status: 400, body: { code: 'malformed_body' } })
  expect(await send(bytes, { headers: { 'content-type': 'text/plain' } })).toMatchObject({ status: 415 })
  expect(await announce(256 * 1024 * 1024 + 1)).toBe(413)
})

test.each<[object, string]>([
  [{ bundle: { digest: 'sha256:1', probe: ['x'] } }, '/bundle/digest'],
  [{ bundle: { digest: `sha256:${'0'.repeat(64)}`, probe: [] } }, '/bundle/probe'],
  [{ bundle: { digest: `sha256:${'0'.repeat(64)}`, probe: ['{bundle}/../x'] } }, '/bundle/probe/0'],
  [{ command: ['{bundle}/a/..', 'x'] }, '/command/0'],
  [{ output: [] }, '/output'],
  [{ output: [{ tells: 'message' }] }, '/output/0/text'],
  [{ output: [{ tells: 'message', text: 'a..b' }] }, '/output/0/text'],
  [{ output: [{ tells: 'message', text: 'a.b.c.d.e.f.g.h.i' }] }, '/output/0/text'],
  [{ output: [{ tells: 'song' }] }, '/output/0'],
  [{ output: [{ tells: 'turn', when: { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 } }] }, '/output/0/when'],
])('%j is refused', async (over, pointer) => {
  const { status, body } = await add(options(over))
  expect(status).toBe(422)
  expect(body.errors[0].pointer).toContain(pointer)
})

test('another workspace does not see the harness and can use its name', async () => {
  const other = await app.otherWorkspace('neighbour')
  const body = options()
  await add(body)
  const params = { ...slug(body).params, org: other.login }
  expect(await app.call(removeHarness, { params, key: other.key })).toMatchObject({ status: 404 })
  expect((await app.call(listHarnesses, { params, key: other.key })).body.harnesses).toEqual([])
  expect(await app.call(addHarness, { params, key: other.key, body })).toMatchObject({ status: 201 })
})
