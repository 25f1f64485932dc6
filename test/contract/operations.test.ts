import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OPERATOR_KEY, type TestApp, testApp } from '../support/app.ts'
import { type Operation, operationsOf, send } from './operations.ts'

// These tests read the OpenAPI document, so an operation that is added later is covered without a word here.

let app: TestApp
let operations: Operation[]

beforeAll(async () => {
  app = await testApp()
  operations = await operationsOf(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

const keyFor = (operation: Operation) => (operation.access === 'operator' ? OPERATOR_KEY : app.adminKey)

/** The operations that did not answer as they must, with what they said. */
async function exceptions(
  of: Operation[],
  status: number,
  ask: (operation: Operation) => Promise<{ status: number; text: string }>,
) {
  const answers = await Promise.all(of.map(async (operation) => ({ operation, answer: await ask(operation) })))
  return answers
    .filter(({ answer }) => answer.status !== status)
    .map(({ operation, answer }) => `${operation.id}: ${answer.status} ${answer.text.slice(0, 200)}`)
}

test('the document is valid OpenAPI 3.1', async () => {
  const { body } = await app.fetch('/openapi.json')
  expect(await new Validator().validate(body)).toMatchObject({ valid: true })
  expect(body.openapi).toBe('3.1.0')
  expect(operations.length).toBeGreaterThan(10)
})

test('without a key every guarded operation is 401 and says how to come in', async () => {
  const guarded = operations.filter((operation) => operation.access !== 'public')
  expect(await exceptions(guarded, 401, (operation) => send(app, operation, { key: null }))).toEqual([])
  const answer = await send(app, guarded[0] as Operation, { key: null })
  expect(answer.headers.get('www-authenticate')).toBe('Bearer')
})

test('in another workspace every operation is 404, whatever the permission', async () => {
  const other = await app.otherWorkspace('foreign')
  const inside = operations.filter((operation) => operation.path.includes('{org}'))
  expect(await exceptions(inside, 404, (operation) => send(app, operation, { key: other.key }))).toEqual([])
})

test('another workspace’s thing is 404 in one’s own, and stays untouched', async () => {
  const other = await app.otherWorkspace('owner')
  const things = operations.filter((operation) => /\{org\}.*\{/.test(operation.path))
  const foreign = new Map<string, string>()
  for (const { path } of things) {
    const name = /\{org\}.*?\{([^}]+)\}/.exec(path)?.[1] ?? ''
    const collection = path.slice(0, path.indexOf(`/{${name}}`))
    const create = operations.find((operation) => operation.method === 'POST' && operation.path === collection)
    if (!create || foreign.has(name)) continue
    const created = await send(app, create, { key: other.key, params: { org: other.login } })
    expect(created.status, created.text).toBe(201)
    foreign.set(name, created.body.id)
  }
  expect(foreign.size).toBeGreaterThan(0)
  expect(
    await exceptions(things, 404, (operation) => send(app, operation, { params: Object.fromEntries(foreign) })),
  ).toEqual([])
  for (const id of foreign.values()) {
    const rows = await Promise.all(
      ['api_keys', 'credentials'].map((table) =>
        app.database.pool.query(`select id from ${table} where id = $1`, [id]),
      ),
    )
    expect(rows.some(({ rowCount }) => rowCount === 1)).toBe(true)
  }
})

test('a key with too low a permission is 403', async () => {
  const { body } = await send(app, byId('createKey'), { text: JSON.stringify({ name: 'reader', permission: 'read' }) })
  const above = operations.filter((operation) => ['write', 'admin'].includes(operation.access))
  expect(await exceptions(above, 403, (operation) => send(app, operation, { key: body.key }))).toEqual([])
  const operator = operations.filter((operation) => operation.access === 'operator')
  expect(await exceptions(operator, 403, (operation) => send(app, operation))).toEqual([])
})

test('a browser session without its CSRF token changes nothing', async () => {
  const { headers } = await send(app, byId('createSession'), { key: null, text: JSON.stringify({ key: app.adminKey }) })
  const cookie = headers.get('set-cookie')?.split(';')[0] ?? ''
  const changing = operations.filter(
    (operation) => operation.method !== 'GET' && !['public', 'operator'].includes(operation.access),
  )
  expect(
    await exceptions(changing, 403, (operation) => send(app, operation, { key: null, headers: { cookie } })),
  ).toEqual([])
})

test('a body must be small, JSON by name and JSON in fact, and hold no unknown field', async () => {
  const withBody = operations.filter((operation) => operation.body)
  const key = keyFor
  const existing = await ownThings()
  const ask = (sending: object) => (operation: Operation) =>
    send(app, operation, { key: key(operation), params: existing, ...sending })
  expect(await exceptions(withBody, 413, ask({ text: JSON.stringify({ name: 'x'.repeat(2 * 1024 * 1024) }) }))).toEqual(
    [],
  )
  expect(await exceptions(withBody, 415, ask({ headers: { 'content-type': 'text/plain' } }))).toEqual([])
  expect(await exceptions(withBody, 400, ask({ text: '{"name":' }))).toEqual([])
  expect(await exceptions(withBody, 422, ask({ text: '{"noSuchField":1}' }))).toEqual([])
  const answer = await send(app, byId('createKey'), { text: '{"name":"a","permission":"read","noSuchField":1}' })
  expect(answer.body.errors).toEqual([
    { pointer: '/noSuchField', code: 'unknown_field', message: 'There is no such field.' },
  ])
})

test('a list refuses a limit and a cursor that are none', async () => {
  const lists = operations.filter((operation) => operation.parameters.some(({ name }) => name === 'cursor'))
  expect(lists.length).toBeGreaterThan(1)
  for (const query of [
    '?limit=0',
    '?limit=201',
    '?limit=x',
    '?cursor=x',
    '?cursor=0000-01-01T00:00:00.000Z~x',
    '?cursor=%00',
  ]) {
    expect(await exceptions(lists, 422, (operation) => send(app, operation, { query }))).toEqual([])
  }
})

test('a read that has not changed is 304', async () => {
  const reads = operations.filter((operation) => operation.method === 'GET' && operation.statuses.includes(304))
  const existing = await ownThings()
  const again = async (operation: Operation) => {
    const first = await send(app, operation, { params: existing })
    return send(app, operation, { params: existing, headers: { 'if-none-match': first.headers.get('etag') ?? '' } })
  }
  expect(await exceptions(reads, 304, again)).toEqual([])
})

test('an Idempotency-Key stands for one request', async () => {
  const creating = operations.filter((operation) => operation.parameters.some(({ name }) => name === 'Idempotency-Key'))
  expect(creating.length).toBeGreaterThan(1)
  for (const operation of creating) {
    const sending = { key: keyFor(operation), headers: { 'idempotency-key': `once-${operation.id}` } }
    const first = await send(app, operation, sending)
    expect(first.status, first.text).toBe(201)

    const again = await send(app, operation, sending)
    const showsSecret = 'key' in first.body
    expect(again.status, operation.id).toBe(showsSecret ? 409 : 201)
    if (showsSecret) expect(again.body.code).toBe('idempotency_key_spent')
    else expect(again.text).toBe(first.text)

    const example = operation.body?.example ?? {}
    const changed = Object.fromEntries(
      Object.entries(example).map(([name, value]) => [name, name === 'name' ? `${value} 2` : value]),
    )
    const other = await send(app, operation, { ...sending, text: JSON.stringify(changed) })
    expect(other).toMatchObject({ status: 409, body: { code: 'idempotency_key_reused' } })
    const malformed = await send(app, operation, { ...sending, headers: { 'idempotency-key': 'x'.repeat(256) } })
    expect(malformed.status).toBe(422)
  }
})

test('every operation is limited where limits are on', async () => {
  await using limited = await testApp({ ASSAY_RATE_LIMIT: '1' })
  for (const operation of operations) {
    const key = operation.access === 'operator' ? OPERATOR_KEY : (await limited.otherWorkspace(`w-${operation.id}`)).key
    let answer = await send(limited, operation, { key })
    for (let tries = 0; tries < 30 && answer.status !== 429; tries++) answer = await send(limited, operation, { key })
    expect(answer, operation.id).toMatchObject({ status: 429, body: { code: 'rate_limited', retryable: true } })
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(answer.headers.get('ratelimit-policy')).toMatch(/^"default";q=\d+;w=60$/)
    expect(answer.headers.get('ratelimit')).toMatch(/^"default";r=0;t=\d+$/)
  }
})

const byId = (id: string): Operation => {
  const operation = operations.find((candidate) => candidate.id === id)
  if (!operation) throw new Error(`There is no operation ${id}.`)
  return operation
}

/** A thing of the workspace for each path parameter that can be made by a POST with its example. */
async function ownThings(): Promise<Record<string, string>> {
  const things: Record<string, string> = {}
  for (const { path } of operations) {
    const name = /\{org\}.*?\{([^}]+)\}/.exec(path)?.[1]
    if (!name || things[name]) continue
    const create = operations.find(
      (operation) => operation.method === 'POST' && operation.path === path.slice(0, path.indexOf(`/{${name}}`)),
    )
    if (create) things[name] = (await send(app, create)).body.id
  }
  return things
}
