import { request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OPERATOR_KEY, type TestApp, testApp } from '../support/app.ts'
import { type CodeHostServer, startCodeHost } from '../support/code-host.ts'
import { type ApiOperation, operationsOf, send } from './operations.ts'

let app: TestApp
let operations: ApiOperation[]
let host: CodeHostServer

beforeAll(async () => {
  host = await startCodeHost()
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
  operations = await operationsOf(app)
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
})

const VALUES: unknown[] = [
  null,
  true,
  0,
  -1,
  1e308,
  2 ** 53,
  '',
  ' ',
  'x'.repeat(100_000),
  '../../etc/passwd',
  "'; drop table workspaces; --",
  '{{7*7}}',
  '<script>alert(1)</script>',
  '😀'.repeat(1000),
  '\u202e',
  [],
  [[]],
  {},
  { a: { b: {} } },
  JSON.parse('{"__proto__":{"admin":true}}'),
  JSON.parse('{"constructor":{"prototype":{"admin":true}}}'),
]

const TEXTS = [
  '',
  'null',
  '[]',
  '""',
  '0',
  '"\\u0000"',
  '{"name":"\\u0000"}',
  '{"name":"\\ud800"}',
  '{"\\u0000":1}',
  '\ufeff{}',
  '['.repeat(500_000),
  '[['.repeat(1000) + ']]'.repeat(1000),
  '{"a":'.repeat(50_000),
  '{"__proto__":{"x":1}}',
  `{"a":${'9'.repeat(100_000)}}`,
]

const PARAMETERS = [
  '..',
  '.',
  '%2e%2e',
  '%2e%2e%2f%2e%2e',
  '%00',
  '%zz',
  '%ff',
  '%F0%9F%98%80',
  'a'.repeat(10_000),
  "'",
  '%27%20or%201=1',
  ':org',
  '*',
  '%20',
  '-',
]

/** Sends the raw path, which fetch would normalize. */
const rawStatus = (method: string, path: string, key: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(app.url)
    const sent = request({ hostname, port, method, path, headers: { authorization: `Bearer ${key}` } }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', reject).end()
  })

const filled = (path: string, values: Record<string, string> = {}): string =>
  path.replaceAll(/\{([^}]+)\}/g, (_, name) => values[name] ?? (name === 'org' ? 'local' : crypto.randomUUID()))

const keyFor = (operation: ApiOperation) => (operation.access === 'operator' ? OPERATOR_KEY : app.adminKey)

test('no request body causes a 500', async () => {
  const broken: string[] = []
  for (const operation of operations.filter(({ body }) => body)) {
    const example = operation.body?.example ?? {}
    const fields = Object.keys(operation.body?.schema.properties ?? {})
    const bodies = fields.flatMap((field) => VALUES.map((value) => JSON.stringify({ ...example, [field]: value })))
    for (const text of [...TEXTS, ...bodies]) {
      const answer = await send(app, operation, { key: keyFor(operation), text })
      if (answer.status >= 500) broken.push(`${operation.id} ${answer.status} ${text.slice(0, 80)}`)
    }
  }
  expect(broken).toEqual([])
})

test('no path or query causes a 500 or reaches another route', async () => {
  const broken: string[] = []
  for (const operation of operations) {
    const names = [...operation.path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '')
    const paths = names.flatMap((name) => PARAMETERS.map((value) => filled(operation.path, { [name]: value })))
    const queries = [
      '?',
      '?limit',
      '?limit=1&limit=2',
      '?cursor=%ff',
      `?q=${'a'.repeat(8000)}`,
      '?__proto__=1',
      '?%00=1',
      '?a[b]=c',
      '?cursor=%00',
    ]
    const plain = filled(operation.path)
    for (const path of [...paths, ...queries.map((query) => plain + query)]) {
      const status = await rawStatus(operation.method, path, keyFor(operation))
      if (status >= 500) broken.push(`${operation.id} ${status} ${path.slice(0, 100)}`)
      if (paths.includes(path) && status < 300) broken.push(`${operation.id} ${status} ${path.slice(0, 100)}`)
    }
  }
  expect(broken).toEqual([])
})

test('an endless body is rejected at the size limit', async () => {
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(64 * 1024).fill(32)),
  })
  const init = {
    method: 'POST',
    headers: { authorization: `Bearer ${app.adminKey}`, 'content-type': 'application/json' },
    body: endless,
    duplex: 'half',
  }
  const outcome = await app.fetch('/api/orgs/local/keys', init as RequestInit).then(
    (answer) => answer.status,
    () => 'connection closed',
  )
  expect([413, 'connection closed']).toContain(outcome)
  expect((await app.fetch('/healthz')).status).toBe(200)
})

test('internal errors are not disclosed to the client', async () => {
  await using broken = await testApp()
  await broken.database.pool.query('drop table audit_events')
  const answer = await broken.fetch('/api/orgs/local/audit', {
    headers: { authorization: `Bearer ${broken.adminKey}` },
  })
  expect(answer).toMatchObject({
    status: 500,
    body: { code: 'internal_error', detail: 'Internal server error.' },
  })
  expect(answer.text).not.toMatch(/audit_events|select|relation/)
  expect(broken.logged()).toMatch(/relation \\"audit_events\\" does not exist/)
})
