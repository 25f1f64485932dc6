import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { putEndorsement, verifyWorkspace } from '../../src/releases/schema.ts'
import { createWebhook, testWebhook } from '../../src/webhooks/schema.ts'
import { OPERATOR_KEY, type TestApp, testApp } from '../support/app.ts'
import { buildArchive, smallTask } from '../support/archives.ts'
import { openImportLab } from '../support/batches.ts'
import { type CodeHostServer, startCodeHost } from '../support/code-host.ts'
import { type ComparisonLab, openComparisonLab, openRepositoryComparisonLab } from '../support/comparisons.ts'
import { openReleaseLab } from '../support/releases.ts'
import { type ApiOperation, type OperationOptions, operationsOf, send } from './operations.ts'

// These tests read the OpenAPI document, so that new operations are covered automatically.

let app: TestApp
let operations: ApiOperation[]
let host: CodeHostServer

beforeAll(async () => {
  host = await startCodeHost()
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url, ASSAY_PUBLIC_OWNERS: 'lab=local' })
  operations = await operationsOf(app)
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
})

const keyFor = (operation: ApiOperation) => (operation.access === 'operator' ? OPERATOR_KEY : app.adminKey)

/** Returns the operations with an unexpected response. */
async function exceptions(
  of: ApiOperation[],
  status: number,
  ask: (operation: ApiOperation) => Promise<{ status: number; text: string }>,
) {
  const others: string[] = []
  // In sequence: on a busy machine many large concurrent bodies would time out.
  for (const operation of of) {
    const answer = await ask(operation)
    if (answer.status !== status) others.push(`${operation.id}: ${answer.status} ${answer.text.slice(0, 200)}`)
  }
  return others
}

test('the document is valid OpenAPI 3.1, with names for all bodies and descriptions for everything', async () => {
  const { body } = await app.fetch('/openapi.json')
  expectDescribed(body)
  expect(await new Validator().validate(body)).toMatchObject({ valid: true })
  expect(body.openapi).toBe('3.1.0')
  expect(operations.length).toBeGreaterThan(10)
})

/** Readers of generated clients see only names and descriptions. */
function expectDescribed(document: DescribedDocument): void {
  const all = Object.values(document.paths).flatMap((methods) => Object.values(methods))
  const unnamed = all.filter(({ requestBody, responses }) =>
    [requestBody, ...Object.values(responses)]
      .flatMap((each) => each?.content?.['application/json'] ?? [])
      .some(({ schema }) => schema.$ref === undefined),
  )
  const parts = [
    ...all.flatMap(({ operationId, parameters }) => parameters.map((each) => ({ ...each, of: operationId }))),
    ...Object.entries(document.components.headers).map(([of, header]) => ({ ...header, of })),
    ...Object.entries(document.components.schemas).map(([of, schema]) => ({ ...schema, of })),
    ...document.tags,
  ]
  expect(unnamed.map(({ operationId }) => operationId)).toEqual([])
  expect(parts.filter(({ description }) => !description)).toEqual([])
  const withoutHeaders = all.filter(({ responses }) => Object.values(responses).some(({ headers }) => !headers))
  expect(withoutHeaders.map(({ operationId }) => operationId)).toEqual([])
}

type DescribedPart = { name?: string; of?: string; description?: string }
type DescribedContent = { content?: Record<string, { schema: { $ref?: string } }> }
type DescribedOperation = {
  operationId: string
  parameters: DescribedPart[]
  requestBody?: DescribedContent
  responses: Record<string, DescribedContent & { headers?: Record<string, { $ref: string }> }>
}
type DescribedDocument = {
  paths: Record<string, Record<string, DescribedOperation>>
  components: { schemas: Record<string, DescribedPart>; headers: Record<string, DescribedPart> }
  tags: DescribedPart[]
}

test('without a key every protected operation is 401 and names the authentication scheme', async () => {
  const guarded = operations.filter((operation) => operation.access !== 'public')
  expect(await exceptions(guarded, 401, (operation) => send(app, operation, { key: null }))).toEqual([])
  const answer = await send(app, guarded[0] as ApiOperation, { key: null })
  expect(answer.headers.get('www-authenticate')).toBe('Bearer')
})

test('in another workspace every operation is 404, whatever the permission', async () => {
  const other = await app.otherWorkspace('foreign')
  const inside = operations.filter((operation) => operation.path.includes('{org}'))
  expect(await exceptions(inside, 404, (operation) => send(app, operation, { key: other.key }))).toEqual([])
})

test('resources of another workspace are 404 and stay unchanged', async () => {
  const other = await app.otherWorkspace('owner')
  // A PUT creates a missing resource.
  const things = operations.filter(({ method, path }) => /\{org\}.*\{/.test(path) && method !== 'PUT')
  const made = await makeThings({ key: other.key, params: { org: other.login } })
  expect(made.length).toBeGreaterThan(1)
  const foreign = Object.assign({}, ...made.map(({ params }) => params))
  expect(await exceptions(things, 404, (operation) => send(app, operation, { params: foreign }))).toEqual([])
  for (const { collection, params } of made) {
    const list = operations.find((operation) => operation.method === 'GET' && operation.path === collection)
    const left = list && (await send(app, list, { key: other.key, params: { org: other.login } }))
    for (const value of Object.values(params)) expect(left?.text).toContain(value)
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

test('a body must be small, valid JSON with the right content type and no unknown field', async () => {
  const withBody = operations.filter((operation) => operation.body)
  const key = keyFor
  const existing = await ownThings()
  const ask = (sending: object) => (operation: ApiOperation) =>
    send(app, operation, { key: key(operation), params: existing(operation), ...sending })
  expect(await exceptions(withBody, 413, ask({ text: JSON.stringify({ name: 'x'.repeat(2 * 1024 * 1024) }) }))).toEqual(
    [],
  )
  expect(await exceptions(withBody, 415, ask({ headers: { 'content-type': 'text/plain' } }))).toEqual([])
  expect(await exceptions(withBody, 400, ask({ text: '{"name":' }))).toEqual([])
  expect(await exceptions(withBody, 422, ask({ text: '{"noSuchField":1}' }))).toEqual([])
  const answer = await send(app, byId('createKey'), { text: '{"name":"a","permission":"read","noSuchField":1}' })
  expect(answer.body.errors).toEqual([{ pointer: '/noSuchField', code: 'unknown_field', message: 'Unknown field.' }])
})

test('a missing resource is 404 before body and query are validated', async () => {
  // A comparison is looked up by the id in its body, and a PUT creates a missing resource.
  const below = operations.filter(
    ({ id, method, path }) => /\{org\}.*\{/.test(path) && method !== 'PUT' && !id.startsWith('createComparison'),
  )
  const absent = { ...ABSENT, owner: 'nobody', name: 'nothing' }
  const withBody = below.filter(({ body }) => body)
  const withLimit = below.filter(({ parameters }) => parameters.some(({ name }) => name === 'limit'))
  expect(Math.min(withBody.length, withLimit.length)).toBeGreaterThan(5)
  const ask = (sending: OperationOptions) => (operation: ApiOperation) =>
    send(app, operation, { params: absent, ...sending })
  expect(await exceptions(withBody, 404, ask({ text: '{"noSuchField":1}' }))).toEqual([])
  expect(await exceptions(withLimit, 404, ask({ query: '?limit=0' }))).toEqual([])

  // The same one level down: an existing, empty repository.
  const existing = await ownThings()
  const deep = (sending: OperationOptions) => (operation: ApiOperation) => {
    const [last = ''] = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '').slice(-1)
    return send(app, operation, { params: { ...existing(operation), [last]: ABSENT[last] ?? '' }, ...sending })
  }
  expect(await exceptions(withBody, 404, deep({ text: '{"noSuchField":1}' }))).toEqual([])
  expect(await exceptions(withLimit, 404, deep({ query: '?limit=0' }))).toEqual([])
})

const unknownId = '00000000-0000-4000-8000-000000000000'
const ABSENT: Record<string, string> = {
  datasetOrg: 'nobody',
  dataset: 'nothing',
  name: 'nothing',
  runId: `batch-${unknownId}`,
  taskId: 'nothing',
  path: 'nothing',
  ...Object.fromEntries(
    ['keyId', 'credentialId', 'comparisonId', 'trialId', 'releaseId', 'webhookId', 'deliveryId'].map((name) => [
      name,
      unknownId,
    ]),
  ),
}

test('a list rejects an invalid limit and an invalid cursor', async () => {
  const lists = operations.filter((operation) => operation.parameters.some(({ name }) => name === 'cursor'))
  expect(lists.length).toBeGreaterThan(1)
  const existing = await ownThings()
  for (const query of [
    '?limit=0',
    '?limit=201',
    '?limit=x',
    '?cursor=x',
    '?cursor=0000-01-01T00:00:00.000Z~x',
    '?cursor=%00',
  ]) {
    expect(
      await exceptions(lists, 422, (operation) => send(app, operation, { query, params: existing(operation) })),
    ).toEqual([])
  }
})

test('an unchanged resource is 304', async () => {
  const reads = operations.filter((operation) => operation.method === 'GET' && operation.statuses.includes(304))
  const existing = await ownThings()
  const again = async (operation: ApiOperation) => {
    const first = await send(app, operation, { params: existing(operation), key: keyFor(operation) })
    return send(app, operation, {
      params: existing(operation),
      key: keyFor(operation),
      headers: { 'if-none-match': first.headers.get('etag') ?? '' },
    })
  }
  expect(await exceptions(reads, 304, again)).toEqual([])
})

test('a repeated Idempotency-Key does not repeat the operation', async () => {
  const creating = operations.filter((operation) => operation.parameters.some(({ name }) => name === 'Idempotency-Key'))
  expect(creating.length).toBeGreaterThan(1)
  const params = await importedThings()
  const bodies = await bodiesThatNameThings(params)
  for (const operation of creating) {
    const text = bodies[operation.id]
    const headers = { 'idempotency-key': `once-${operation.id}` }
    const sending = { key: keyFor(operation), params, headers, text }
    const first = await send(app, operation, sending)
    // A resource that is identified by its content, such as a benchmark, is 200 if it exists.
    expect([200, 201, 202], first.text).toContain(first.status)

    const again = await send(app, operation, sending)
    const showsSecret = 'key' in first.body || 'secret' in first.body
    expect(again.status, operation.id).toBe(showsSecret ? 409 : first.status)
    if (showsSecret) expect(again.body.code).toBe('idempotency_key_spent')
    else expect(again.text).toBe(first.text)

    const example = operation.body?.example ?? {}
    const changed = Object.fromEntries(
      Object.entries(example).map(([name, value]) => [
        name,
        ['name', 'url', 'reference'].includes(name) ? `${value}2` : value,
      ]),
    )
    const other = await send(app, operation, {
      ...sending,
      text: JSON.stringify(changed),
      file: buildArchive({ other: smallTask() }),
    })
    expect(other).toMatchObject({ status: 409, body: { code: 'idempotency_key_reused' } })
    const malformed = await send(app, operation, { ...sending, headers: { 'idempotency-key': 'x'.repeat(256) } })
    expect(malformed.status).toBe(422)
  }
})

test('every operation is rate limited if limits are enabled', async () => {
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

const byId = (id: string): ApiOperation => {
  const operation = operations.find((candidate) => candidate.id === id)
  if (!operation) throw new Error(`There is no operation ${id}.`)
  return operation
}

/** Creates a resource for each path parameter, by a POST with its example or by test support. */
async function ownThings(): Promise<(operation: ApiOperation) => Record<string, string>> {
  const made = Object.assign({}, ...(await makeThings({})).map(({ params }) => params), await createWebhookThings())
  const onBenchmark = { ...made, ...(await comparedThings(await openComparisonLab(app))) }
  const onRepository = { ...made, ...(await comparedThings(await openRepositoryComparisonLab(app))) }
  const onBatches = { ...made, ...(await importedThings()) }
  const onReleases = { ...made, ...(await releasedThings()) }
  const onEndorsements = { ...made, ...(await endorsedThings()) }
  return ({ path }) => {
    if (path.includes('/endorsements/')) return onEndorsements
    if (path.includes('/releases') || path.includes('/public/')) return onReleases
    if (/\/repos\/.*\/(evaluations|comparisons)\b/.test(path)) return onRepository
    return path.includes('/repos/') ? onBatches : onBenchmark
  }
}

/** Creates a finished comparison and one of its trials. */
async function comparedThings(lab: ComparisonLab): Promise<Record<string, string>> {
  const { body } = await lab.create()
  await lab.work()
  const [trial] = await lab.trials(body.id)
  const [a, b] = ['reference|oracle|none', 'reference|nop|none']
  return {
    ...lab.params,
    comparisonId: body.id,
    trialId: trial.id,
    artifact: trial.artifacts[0].name,
    a,
    b,
    baseId: body.id,
    taskOrg: 'assay',
    task: 'greet-in-bash',
    path: 'task.toml',
  }
}

/** Creates a validated batch and one of its tasks. */
async function importedThings(): Promise<Record<string, string>> {
  const lab = await openImportLab(app)
  const { runId } = await lab.imported({ hello: smallTask() })
  return { ...lab.place, runId, taskId: 'hello', path: 'task.toml' }
}

/** Body of a batch, which must name an existing credential. */
async function bodiesThatNameThings(params: Record<string, string>): Promise<Record<string, string>> {
  await send(app, byId('createCredential'))
  const { body } = await send(app, byId('readGenerationOptions'), { params })
  const example = byId('createBatch').body?.example
  return { createBatch: JSON.stringify({ ...example, generation: body.defaults }) }
}

/** Creates a release with task files. */
async function releasedThings(): Promise<Record<string, string>> {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: 'acme/a|mini|low', cells: 'pppfff' })
  const { body } = await lab.publishAll({ publishTasks: true })
  return { ...lab.place, releaseId: body.releaseId, taskId: 'one' }
}

/** Creates a verified workspace. */
async function endorsedThings(): Promise<Record<string, string>> {
  const params = { owner: 'local', name: 'demo', publisher: 'local' }
  await app.call(verifyWorkspace, { params: { login: 'local' }, key: OPERATOR_KEY })
  await app.call(putEndorsement, { params })
  return params
}

/** Creates a webhook and a delivery. */
async function createWebhookThings(): Promise<Record<string, string>> {
  const { body: webhook } = await app.call(createWebhook, { body: { url: 'https://hooks.example.org/in' } })
  const { body: delivery } = await app.call(testWebhook, { params: { webhookId: webhook.id } })
  return { webhookId: webhook.id, deliveryId: delivery.id }
}

/** Returns the path parameters of a resource: the fields of these names, or its id. */
async function makeThings(
  sending: OperationOptions,
): Promise<{ collection: string; params: Record<string, string> }[]> {
  const made = []
  const creates = operations.filter(({ method, path }) => method === 'POST' && /\{org\}[^{]*$/.test(path))
  for (const create of creates) {
    const names = namesBelow(create.path)
    if (names.length === 0) continue
    const { status, body, text } = await send(app, create, sending)
    expect([200, 201], text).toContain(status)
    const params = Object.fromEntries(names.map((name) => [name, String(body[name] ?? body.id)]))
    made.push({ collection: create.path, params })
  }
  return made
}

/** Returns the parameters that follow a collection in the path of a resource. */
function namesBelow(collection: string): string[] {
  const rest = operations.flatMap(({ path }) =>
    path.startsWith(`${collection}/{`) ? [path.slice(collection.length)] : [],
  )
  const [, names = ''] = /^((?:\/\{[^}]+\})+)/.exec(rest[0] ?? '') ?? []
  return [...names.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '')
}
