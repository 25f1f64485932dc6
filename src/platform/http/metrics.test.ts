import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiOperation, operationsOf, send } from '../../../test/contract/operations.ts'
import { OPERATOR_KEY, type TestApp, testApp } from '../../../test/support/app.ts'
import { newKey } from '../../workspaces/key.ts'

let app: TestApp
let operations: ApiOperation[]
beforeAll(async () => {
  app = await testApp()
  operations = await operationsOf(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

const metricsAs = (key: string | undefined, method = 'GET') =>
  app.fetch('/metrics', { method, headers: key === undefined ? {} : { authorization: `Bearer ${key}` } })

async function readSeries(): Promise<{ names: string[]; text: string }> {
  const { text } = await metricsAs(OPERATOR_KEY)
  const names = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return { names: names.map((line) => line.slice(0, line.lastIndexOf(' '))), text }
}

/** Every operation, with names that were never seen before, in every way that fails early. */
async function sendHostileTraffic(): Promise<void> {
  const fresh = () => crypto.randomUUID()
  for (const operation of operations) {
    const params = Object.fromEntries([...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name, fresh()]))
    await send(app, operation, { key: null, params })
    await send(app, operation, { key: newKey(), params })
    await send(app, operation, { params: { ...params, org: 'local' }, text: operation.body ? '{' : undefined })
    await send(app, operation, { params: { ...params, org: 'local' }, query: `?${fresh()}=1` })
  }
  for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND'])
    await app.fetch(`/${fresh()}/${fresh()}`, { method, headers: { 'x-request-id': fresh(), 'user-agent': fresh() } })
}

test('hostile traffic cannot grow the metrics: their labels come from fixed sets', async () => {
  await sendHostileTraffic()
  const first = await readSeries()
  await sendHostileTraffic()
  const second = await readSeries()
  // Node's own series, such as the kinds of open handles, come and go without traffic.
  const added = second.names.filter((name) => !first.names.includes(name) && !name.startsWith('assay_nodejs_'))
  expect(added).toEqual([])

  const labels = second.names.flatMap((name) => [...name.matchAll(/(\w+)="([^"]*)"/g)])
  const valuesOf = (label: string) => new Set(labels.flatMap(([, name, value]) => (name === label ? [value] : [])))
  const known = new Set([...operations.map(({ id }) => id), 'unknown'])
  expect([...valuesOf('operation')].filter((id) => !known.has(id ?? ''))).toEqual([])
  expect([...valuesOf('status')].filter((status) => !/^[2345]xx$/.test(status ?? ''))).toEqual([])
  // Of each operation at most four classes of status, seven buckets, a sum and a count.
  expect(second.names.length).toBeLessThan(13 * known.size + 150)
  expect(second.text.length).toBeLessThan(160_000)
})

test('metrics require the operator key', async () => {
  for (const key of [undefined, app.adminKey, newKey(), `${OPERATOR_KEY}x`, '']) {
    const answer = await metricsAs(key)
    expect(answer).toMatchObject({ status: 401, body: { code: 'unauthenticated' } })
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.text).not.toContain('assay_http')
    expect((await metricsAs(key, 'HEAD')).status).toBe(401)
  }
  await app.fetch('/api/key', { headers: { authorization: `Bearer ${app.adminKey}` } })
  const { text } = await metricsAs(OPERATOR_KEY)
  expect(text).toMatch(/assay_http_requests_total\{operation="readOwnKey",status="2xx"\} \d/)
  expect(text).toMatch(/assay_http_request_seconds_count\{operation="readOwnKey"\} \d/)
})

test('without an operator key metrics are not served', async () => {
  await using closed = await testApp({ ASSAY_OPERATOR_KEY: '', ASSAY_CREDENTIAL_STORAGE: 'off' }, app.database)
  for (const authorization of ['', 'Bearer ', 'Bearer undefined', `Bearer ${OPERATOR_KEY}`])
    expect((await closed.fetch('/metrics', { headers: { authorization } })).status).toBe(401)
})

test('readiness shows its status to everyone and its checks only to the operator', async () => {
  for (const key of ['', app.adminKey, newKey()]) {
    const answer = await app.fetch('/readyz', { headers: { authorization: `Bearer ${key}` } })
    expect([answer.status, answer.body]).toEqual([200, { ok: true }])
  }
  const { body } = await app.fetch('/readyz', { headers: { authorization: `Bearer ${OPERATOR_KEY}` } })
  const database = { name: 'database', ok: true, detail: expect.stringContaining('PostgreSQL'), fix: null }
  expect(body).toEqual({ ok: true, checks: expect.arrayContaining([database]) })
})
