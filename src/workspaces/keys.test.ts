import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { newKey } from './key.ts'
import * as schema from './schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const create = (body: { name?: string; permission?: schema.Permission; expiresAt?: string } = {}) =>
  app.call(schema.createKey, { body: { name: 'ci', permission: 'read', ...body } })

test('a key is shown once, gives access to its workspace, and is stored only as a hash', async () => {
  const created = await create({ permission: 'write' })
  expect(created).toMatchObject({
    status: 201,
    body: { name: 'ci', permission: 'write', expiresAt: null, lastUsedAt: null },
  })
  const { key, id, last4 } = created.body
  expect(key.endsWith(last4)).toBe(true)
  expect(created.headers.get('cache-control')).toBe('no-store')

  expect(await app.call(schema.readOwnKey, { key })).toMatchObject({
    status: 200,
    body: { org: 'local', permission: 'write', expiresAt: null },
  })
  const { body } = await app.call(schema.listKeys)
  expect(body.keys.find((listed: schema.Key) => listed.id === id)).toMatchObject({
    last4,
    lastUsedAt: expect.any(String),
  })
  expect(JSON.stringify(body)).not.toContain(key)

  const { rows } = await app.database.pool.query('select to_jsonb(k)::text as row from api_keys k')
  expect(rows.map((row) => row.row).join()).not.toContain(key)
  expect(app.logged()).not.toContain(key)
})

test('a revoked key is invalid at once, also in another process', async () => {
  const { body } = await create()
  await using other = await testApp({ ASSAY_DATA: app.tools.config.dataFolder }, app.database)
  expect((await other.call(schema.readOwnKey, { key: body.key })).status).toBe(200)
  expect((await app.call(schema.deleteKey, { params: { keyId: body.id } })).status).toBe(204)
  expect((await app.call(schema.readOwnKey, { key: body.key })).status).toBe(401)
  expect((await other.call(schema.readOwnKey, { key: body.key })).status).toBe(401)
  expect((await app.call(schema.deleteKey, { params: { keyId: body.id } })).status).toBe(404)
})

test('an expired key is not accepted', async () => {
  const { body } = await create({ expiresAt: new Date(Date.now() + 3_600_000).toISOString() })
  expect((await app.call(schema.readOwnKey, { key: body.key })).body.expiresAt).toBe(body.expiresAt)
  await app.database.pool.query(`update api_keys set expires_at = now() - interval '1 second' where id = $1`, [body.id])
  expect((await app.call(schema.readOwnKey, { key: body.key })).status).toBe(401)
})

test.each(['', 'x', 'assay_', `${newKey()}x`, newKey(), 'a'.repeat(10_000)])('the key %j is refused', async (key) => {
  expect((await app.fetch('/api/key', { headers: { authorization: `Bearer ${key}` } })).status).toBe(401)
})

test.each(['Basic abc', 'Bearer', 'bearer  ', 'Token x'])('rejects the header %j', async (authorization) => {
  expect((await app.fetch('/api/key', { headers: { authorization } })).status).toBe(401)
})

test('the last admin key cannot be revoked, not even by concurrent requests', async () => {
  const { key, login, id } = await app.otherWorkspace('careful')
  const second = await app.call(schema.createKey, {
    key,
    params: { org: login },
    body: { name: 'b', permission: 'admin' },
  })
  const expiring = { name: 'c', permission: 'admin', expiresAt: new Date(Date.now() + 60_000).toISOString() } as const
  const third = (await app.call(schema.createKey, { key, params: { org: login }, body: expiring })).body.key
  const { body } = await app.call(schema.listKeys, { key, params: { org: login } })
  const first = body.keys.find((listed: schema.Key) => listed.name === 'first key')

  const answers = await Promise.all([
    app.call(schema.deleteKey, { key: third, params: { org: login, keyId: first.id } }),
    app.call(schema.deleteKey, { key: third, params: { org: login, keyId: second.body.id } }),
  ])
  expect(answers.map((answer) => answer.status).sort()).toEqual([204, 409])
  expect(answers.find((answer) => answer.status === 409)?.body.code).toBe('last_admin_key')
  const { rows } = await app.database.pool.query(
    `select count(*)::int as count from api_keys where workspace_id = $1 and permission = 'admin' and expires_at is null`,
    [id],
  )
  expect(rows[0].count).toBe(1)
})

test('reports a blank name, an invalid permission and a past date', async () => {
  const body = { name: '  ', permission: 'root', expiresAt: '2001-01-01T00:00:00.000Z' }
  const answer = await app.fetch('/api/orgs/local/keys', {
    method: 'POST',
    headers: { authorization: `Bearer ${app.adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(answer.status).toBe(422)
  expect(answer.body.errors.map((error: { pointer: string }) => error.pointer).sort()).toEqual([
    '/expiresAt',
    '/name',
    '/permission',
  ])
})

test('pages neither repeat nor lose a key when new ones are added meanwhile', async () => {
  const { key, login } = await app.otherWorkspace('paged')
  const params = { org: login }
  const add = (name: string) => app.call(schema.createKey, { key, params, body: { name, permission: 'read' } })
  for (let n = 0; n < 7; n++) await add(`k${n}`)

  const names: string[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const { body }: { body: { keys: schema.Key[]; nextCursor: string | null } } = await app.call(schema.listKeys, {
      key,
      params,
      query: { limit: '3', ...(cursor ? { cursor } : {}) },
    })
    names.push(...body.keys.map((listed) => listed.name))
    cursor = body.nextCursor
    await add('late')
  }
  expect(names).toEqual(['k6', 'k5', 'k4', 'k3', 'k2', 'k1', 'k0', 'first key'])
})

test('a workspace has at most 1,000 keys', async () => {
  const { body } = await create({ name: 'one of many' })
  await app.database.pool.query(
    `insert into api_keys (id, workspace_id, name, permission, hash, last4)
      select gen_random_uuid(), workspace_id, name, permission, sha256(n::text::bytea), last4
      from api_keys, generate_series(1, 999 - (
        select count(*)::int from api_keys as same where same.workspace_id = api_keys.workspace_id
      )) n where id = $1`,
    [body.id],
  )
  expect(await create({ name: 'one of many' })).toMatchObject({ status: 201 })
  expect(await create()).toMatchObject({ status: 409, body: { code: 'too_many_keys' } })
  await app.database.pool.query("delete from api_keys where name = 'one of many'")
  expect(await create()).toMatchObject({ status: 201 })
})
