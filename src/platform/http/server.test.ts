import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operationsOf } from '../../../test/contract/operations.ts'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import * as workspaces from '../../workspaces/schema.ts'
import { createLog } from '../log.ts'
import { toProblemAnswer } from './respond.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const headers = () => ({ authorization: `Bearer ${app.adminKey}` })

test('health, readiness, reference and the OpenAPI document require no key', async () => {
  expect((await app.fetch('/healthz')).body).toEqual({ ok: true })
  expect(await app.fetch('/readyz')).toMatchObject({ status: 200, body: { ok: true } })
  expect((await app.fetch('/docs')).text).toContain('POST /api/orgs/{org}/keys')
  expect((await app.fetch('/')).text).toContain('/docs')
})

test('the reference has every section and schema once, and no broken links', async () => {
  const { text } = await app.fetch('/docs')
  const { body: document } = await app.fetch('/openapi.json')
  const found = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name)
  const ids = found(/ id="([^"]+)"/g)
  expect(ids.filter((id, place) => ids.indexOf(id) !== place)).toEqual([])
  expect(found(/href="#([^"]+)"/g).filter((id) => !ids.includes(id))).toEqual([])
  const shapes = Object.keys(document.components.schemas).map((name) => `schema-${name}`)
  const shown = ids.filter((id) => id?.startsWith('schema-'))
  expect(shown.filter((id) => !shapes.includes(id ?? ''))).toEqual([])
  // Bodies that are named after their operation are shown with it.
  expect(shapes.filter((id) => !shown.includes(id) && !/(Request|Response|Progress)$/.test(id))).toEqual([])
  const sections = document.tags.map(({ name }: { name: string }) => `>${name}</a>`)
  expect(sections.filter((link: string) => !text.includes(link))).toEqual([])
  expect(text).toMatch(/id="schema-Workspace">[\s\S]*?<code>credentialStorage<\/code><\/td><td>boolean</)
})

test('the type of a problem links to its explanation', async () => {
  const { body } = await app.call(workspaces.readWorkspace, { key: null })
  const page = await (await fetch(body.type)).text()
  expect(body.type).toBe(`${app.url}/docs/problems#unauthenticated`)
  expect(page).toContain('id="unauthenticated"')
})

test('with the database down readiness fails and requests get a retryable 503', async () => {
  await using lonely = await testApp()
  const name = new URL(lonely.database.url).pathname.slice(1)
  await app.database.pool.query(`alter database ${name} with allow_connections false`)
  await app.database.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [name])
  const ready = await lonely.fetch('/readyz')
  const answer = await lonely.fetch('/api/key', { headers: { authorization: `Bearer ${lonely.adminKey}` } })
  await app.database.pool.query(`alter database ${name} with allow_connections true`)
  expect(ready).toMatchObject({ status: 503, body: { ok: false } })
  expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable', retryable: true } })
  expect((await lonely.fetch('/readyz')).status).toBe(200)
})

test.each([
  ['limit=abc', 'must be a whole number'],
  ['limit=1.5', 'must be a whole number'],
  ['limit=0', 'must be at least 1'],
  ['limit=201', 'must be at most 200'],
])('reports an invalid field in plain words: %s', async (query, message) => {
  const { status, body } = await app.fetch(`/api/orgs/local/keys?${query}`, { headers: headers() })
  expect([status, body.errors]).toMatchObject([422, [{ pointer: '/query/limit', message }]])
})

test('reports a missing field as missing', async () => {
  const request = { method: 'POST', headers: { ...headers(), 'content-type': 'application/json' }, body: '{"name":""}' }
  const { body } = await app.fetch('/api/orgs/local/keys', request)
  expect(body.errors).toMatchObject([
    { pointer: '/name', message: expect.stringContaining('must') },
    { pointer: '/permission', message: 'must be one of read, write, admin' },
  ])
})

test('lists at most 100 of many invalid fields and counts all; more than 1,000 keys of an object are malformed', async () => {
  const send = (count: number) => {
    const names = Array.from({ length: count }, (_, n) => [`x${n}`, 1])
    const body = JSON.stringify({ name: 'a', permission: 'read', ...Object.fromEntries(names) })
    const request = { method: 'POST', headers: { ...headers(), 'content-type': 'application/json' }, body }
    return app.fetch('/api/orgs/local/keys', request)
  }
  const unknown = await send(500)
  expect(unknown.status).toBe(422)
  expect(unknown.body.errors).toHaveLength(100)
  expect(unknown.body.detail).toContain('(and 499 more)')
  expect(await send(1_000)).toMatchObject({ status: 400, body: { code: 'malformed_body' } })
})

test('a missing file is not reported as a database outage', async () => {
  const missing = await readFile('/nowhere').catch((error: unknown) => error)
  const { status, text } = toProblemAnswer(missing, { log: createLog('silent'), baseUrl: '', requestId: 'one' })
  expect([status, JSON.parse(text).code]).toEqual([500, 'internal_error'])
})

test('returns a valid request id and replaces one that could break a log line', async () => {
  const sent = await app.fetch('/api/key', { headers: { ...headers(), 'x-request-id': 'abc-1.2_3' } })
  expect(sent.headers.get('x-request-id')).toBe('abc-1.2_3')
  const odd = await app.fetch('/api/key', { headers: { ...headers(), 'x-request-id': 'a b{"x":1}' } })
  expect(odd.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}-[0-9a-z]+$/)
  const problem = await app.fetch('/api/key', { headers: { 'x-request-id': 'mine' } })
  expect(problem.body.requestId).toBe('mine')
})

test('an unknown path is 404, a known path with another method 405', async () => {
  expect(await app.fetch('/api/nothing', { headers: headers() })).toMatchObject({
    status: 404,
    body: { code: 'not_found' },
  })
  const answer = await app.fetch('/api/orgs/local/keys', { method: 'PUT', headers: headers() })
  expect(answer).toMatchObject({ status: 405, body: { code: 'method_not_allowed' } })
  expect(answer.headers.get('allow')).toBe('POST, GET, HEAD, OPTIONS')
})

test('Allow lists exactly the methods of a path', async () => {
  const scope = '/api/orgs/local/benchmarks/assay/quick/evaluations/comparisons'
  const fixed = [`${scope}/quote`, `${scope}/${crypto.randomUUID()}`, '/metrics', '/', '/docs/problems']
  const operations = await operationsOf(app)
  const paths = new Set([...fixed, ...operations.map(({ path }) => exampleOf(path))])
  for (const path of paths) {
    const options = await app.fetch(path, { method: 'OPTIONS' })
    const allow = options.headers.get('allow')
    const methods = ['OPTIONS']
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      const answer = await app.fetch(path, { method, headers: headers() })
      // A method that exists answers something else than 405, also without a body.
      if (answer.status !== 405) methods.push(method)
      else expect(answer.headers.get('allow')).toBe(allow)
    }
    expect([path, options.status, allow?.split(', ').sort()]).toEqual([path, 204, methods.sort()])
  }
  expect((await app.fetch(`${scope}/not-an-id`, { method: 'PUT' })).status).toBe(404)
  expect((await app.fetch('/api/nothing', { method: 'OPTIONS' })).status).toBe(404)
  const quote = await app.fetch(`${scope}/quote`, { headers: headers() })
  expect([quote.status, quote.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])
})

/** An address with parameters that fit their patterns. */
const exampleOf = (path: string): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name) => {
    if (name === 'org') return 'local'
    return name === 'runId' ? `batch-${crypto.randomUUID()}` : crypto.randomUUID()
  })

test('the problems page has a section for every problem, also undeclared ones', async () => {
  const { text } = await app.fetch('/docs/problems')
  for (const code of ['method_not_allowed', 'request_timeout', 'internal_error', 'unavailable', 'rate_limited'])
    expect(text).toContain(`id="${code}"`)
})

test('checks run in this order: 401, 404 (workspace), 403, 415, 400, 404, 422', async () => {
  const { body } = await app.call(workspaces.createKey, { body: { name: 'r', permission: 'read' } })
  const post = (path: string, key: string | null, contentType: string, text: string) =>
    app.fetch(path, {
      method: 'POST',
      headers: { ...(key ? { authorization: `Bearer ${key}` } : {}), 'content-type': contentType },
      body: text,
    })
  const status = async (...asked: Parameters<typeof post>) => (await post(...asked)).status
  expect(await status('/api/orgs/other/keys', null, 'text/plain', '{')).toBe(401)
  expect(await status('/api/orgs/other/keys', body.key, 'text/plain', '{')).toBe(404)
  expect(await status('/api/orgs/local/keys', body.key, 'text/plain', '{')).toBe(403)
  expect(await status('/api/orgs/local/keys', app.adminKey, 'text/plain', '{')).toBe(415)
  expect(await status('/api/orgs/local/keys', app.adminKey, 'application/json; charset=utf-8', '{')).toBe(400)
  expect(await status('/api/orgs/local/keys', app.adminKey, 'application/json', '{"name":1}')).toBe(422)
})

test('a read has a strong ETag; HEAD responds like GET without a body', async () => {
  const get = await app.fetch('/api/orgs/local', { headers: headers() })
  expect(get.headers.get('etag')).toMatch(/^"[\w-]{27}"$/)
  const head = await app.fetch('/api/orgs/local', { method: 'HEAD', headers: headers() })
  expect([head.status, head.text, head.headers.get('etag')]).toEqual([200, '', get.headers.get('etag')])
  for (const tag of ['*', `"x", ${get.headers.get('etag')}`, `W/${get.headers.get('etag')}`]) {
    const again = await app.fetch('/api/orgs/local', { headers: { ...headers(), 'if-none-match': tag } })
    expect([again.status, again.text, again.headers.get('content-type')]).toEqual([304, '', null])
  }
  expect((await app.fetch('/api/orgs/local', { headers: { ...headers(), 'if-none-match': '"other"' } })).status).toBe(
    200,
  )
})

test('concurrent requests with one Idempotency-Key are executed once', async () => {
  const create = () =>
    app.call(workspaces.createKey, {
      body: { name: 'many', permission: 'read' },
      headers: { 'idempotency-key': 'burst' },
    })
  const statuses = (await Promise.all(Array.from({ length: 8 }, create))).map((answer) => answer.status)
  expect(statuses.filter((status) => status === 201)).toHaveLength(1)
  const { rows } = await app.database.pool.query(`select count(*)::int as count from api_keys where name = 'many'`)
  expect(rows[0].count).toBe(1)
})

test('a failed request does not use up its Idempotency-Key', async () => {
  const send = (name: string) =>
    app.fetch('/api/orgs/local/keys', {
      method: 'POST',
      headers: { ...headers(), 'content-type': 'application/json', 'idempotency-key': 'again' },
      body: JSON.stringify({ name, permission: 'read' }),
    })
  expect((await send('')).status).toBe(422)
  expect((await send('fine')).status).toBe(201)
})

test('an Idempotency-Key is free again after 24 hours', async () => {
  const create = (name: string) =>
    app.call(workspaces.createKey, { body: { name, permission: 'read' }, headers: { 'idempotency-key': 'daily' } })
  expect((await create('monday')).status).toBe(201)
  await app.database.pool.query(`update idempotency_keys set created_at = now() - interval '25 hours'`)
  expect((await create('tuesday')).status).toBe(201)
  expect((await create('monday')).status).toBe(409)
})

test('only public results allow other origins; other preflights are refused', async () => {
  const origin = { origin: 'https://evil.example', 'access-control-request-method': 'GET' }
  for (const path of ['/api/key', '/api/orgs/local/keys', '/metrics', '/api/nothing', '/readyz'])
    for (const method of ['GET', 'OPTIONS', 'PUT']) {
      const answer = await app.fetch(path, { method, headers: { ...headers(), ...origin } })
      expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
    }
})

test('public results answer preflights and expose their headers to every origin', async () => {
  const asked = {
    origin: 'https://anyone.example',
    'access-control-request-method': 'GET',
    'access-control-request-headers': 'if-none-match, x-request-id',
  }
  const operations = (await operationsOf(app)).filter(({ path }) => path.startsWith('/api/public/'))
  expect(operations.length).toBeGreaterThan(5)
  for (const path of operations.map((operation) => exampleOf(operation.path))) {
    const preflight = await app.fetch(path, { method: 'OPTIONS', headers: asked })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
    expect(preflight.headers.get('access-control-allow-methods')).toBe('GET, HEAD, OPTIONS')
    expect(preflight.headers.get('access-control-allow-headers')).toBe('*, Authorization')
  }
  const exposed = ['etag', 'ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id', 'content-disposition']
  for (const [path, status] of [
    ['/api/public/results', 200],
    ['/api/public/results/no/body', 404],
    ['/api/public/nothing', 404],
  ] as const) {
    const answer = await app.fetch(path, { headers: asked })
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([status, '*'])
    const names = answer.headers.get('access-control-expose-headers')?.toLowerCase().split(', ')
    expect(names).toEqual(expect.arrayContaining(exposed))
  }
})
