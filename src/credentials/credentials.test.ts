import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { findBrokenLink } from '../workspaces/audit.ts'
import * as schema from './schema.ts'

const anthropic = {
  kind: 'model',
  provider: 'anthropic',
  name: 'Team key',
  secret: { apiKey: 'sk-ant-0123456789-wxyz' },
} as const

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const create = (body: object = anthropic, more: object = {}) =>
  app.call(schema.createCredential, { body: { ...anthropic, ...body }, ...more })
const list = async (query = {}) => (await app.call(schema.listCredentials, { query })).body
const builtin = async (provider: string) =>
  (await list({ limit: '200' })).credentials.find(
    (one: schema.Credential) => one.source === 'builtin' && one.provider === provider,
  )

describe('storing', () => {
  test('returns the stored credential without the secret', async () => {
    const { status, body } = await create()
    expect(status).toBe(201)
    expect(body).toEqual({
      id: expect.any(String),
      kind: 'model',
      provider: 'anthropic',
      name: 'Team key',
      source: 'stored',
      hint: 'wxyz',
      createdAt: expect.any(String),
      lastUsedAt: null,
    })
    expect((await list()).credentials).toContainEqual(body)
  })

  test.each([
    ['the end of a long key', { kind: 'model', provider: 'openai', secret: { apiKey: ' 0123456789ab\n' } }, '89ab'],
    ['nothing of a short key', { kind: 'model', provider: 'openai', secret: { apiKey: '0123456789a' } }, ''],
    [
      'the address of an engine',
      { kind: 'sandbox', provider: 'docker', secret: { host: 'tcp://engine.example.com:2376' } },
      'tcp://engine.example.com:2376',
    ],
    [
      'the end of a token, not its host',
      { kind: 'code-host', provider: 'github', secret: { token: 'ghp_0123456789', host: 'git.example.com' } },
      '6789',
    ],
  ])('gives as hint %s', async (_, body, hint) => {
    expect(await create(body)).toMatchObject({ status: 201, body: { hint } })
  })

  test('stores one credential for a repeated Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'store-once' }
    const [first, again] = await Promise.all([create({}, { headers }), create({}, { headers })])
    expect(again).toMatchObject({ status: 201, text: first.text })
    const other = await create({ secret: { apiKey: 'another-secret' } }, { headers })
    expect(other).toMatchObject({ status: 409, body: { code: 'idempotency_key_reused' } })
  })
})

test('a workspace has at most 500 stored credentials', async () => {
  const { body } = await create({ name: 'one of many' })
  await app.database.pool.query(
    `insert into credentials select (jsonb_populate_record(credentials, jsonb_build_object('id', gen_random_uuid()))).*
      from credentials, generate_series(1, 499 - (
        select count(*)::int from credentials as same where same.workspace_id = credentials.workspace_id
      )) where id = $1`,
    [body.id],
  )
  expect(await create({ name: 'one of many' })).toMatchObject({ status: 201 })
  expect(await create()).toMatchObject({ status: 409, body: { code: 'too_many_credentials' } })
  await app.database.pool.query("delete from credentials where name = 'one of many'")
  expect(await create()).toMatchObject({ status: 201 })
})

describe('listing', () => {
  test('includes the built-in credentials under stable ids', async () => {
    await using fresh = await testApp()
    const { body } = await fresh.call(schema.listCredentials)
    expect(body.nextCursor).toBeNull()
    expect(
      body.credentials
        .map(({ kind, provider, source, hint }: schema.Credential) => [kind, provider, source, hint])
        .sort(),
    ).toEqual([
      ['model', 'none', 'builtin', ''],
      ['sandbox', 'docker', 'builtin', ''],
      ['sandbox', 'kubernetes', 'builtin', ''],
      ['sandbox', 'local', 'builtin', ''],
    ])
    expect((await fresh.call(schema.listCredentials)).body).toEqual(body)

    const other = await fresh.otherWorkspace()
    const theirs = await fresh.call(schema.listCredentials, { key: other.key, params: { org: other.login } })
    const ids = [...body.credentials, ...theirs.body.credentials].map(({ id }: schema.Credential) => id)
    expect(new Set(ids).size).toBe(8)
  })

  test.each(['1', '2', '3', '7'])('in pages of %s shows each once, newest first, built-in ones last', async (limit) => {
    const whole: schema.Credential[] = (await list({ limit: '200' })).credentials
    const pages: schema.Credential[] = []
    let cursor: string | null = null
    do {
      const page = await list({ limit, ...(cursor ? { cursor } : {}) })
      pages.push(...page.credentials)
      cursor = page.nextCursor
    } while (cursor)
    expect(pages).toEqual(whole)
    expect(whole.map(({ createdAt }) => createdAt)).toEqual(
      whole
        .map(({ createdAt }) => createdAt)
        .sort()
        .reverse(),
    )
    expect(whole.slice(-4).map(({ source }) => source)).toEqual(['builtin', 'builtin', 'builtin', 'builtin'])
  })

  test('pages are stable when credentials are added meanwhile', async () => {
    const first = await list({ limit: '2' })
    await create()
    const second = await list({ limit: '2', cursor: first.nextCursor })
    const ids = [...first.credentials, ...second.credentials].map(({ id }: schema.Credential) => id)
    expect(new Set(ids).size).toBe(4)
  })

  test('lists the providers and their fields', async () => {
    const { status, body } = await app.call(schema.listCredentialProviders)
    expect(status).toBe(200)
    expect(body.providers.map(({ kind, provider }: schema.CredentialProvider) => `${kind} ${provider}`)).toEqual([
      'model anthropic',
      'model openai',
      'model gemini',
      'model openrouter',
      'model deepseek',
      'model xai',
      'model moonshot',
      'model zai',
      'sandbox docker',
      'registry harbor',
      'code-host github',
      'code-host ssh',
    ])
    expect(body.providers.at(-2).fields).toEqual([
      { name: 'token', required: true, secret: true, multiline: false },
      { name: 'host', required: false, secret: false, multiline: false },
    ])
  })
})

describe('changing', () => {
  const update = (credentialId: string, body: object) =>
    app.call(schema.updateCredential, { params: { credentialId }, body })

  test('changes name, secret or both and keeps the id', async () => {
    const { body: before } = await create()
    expect(await update(before.id, { name: 'Renamed' })).toMatchObject({
      status: 200,
      body: { ...before, name: 'Renamed' },
    })
    const secret = { apiKey: 'sk-ant-new-0123456789' }
    expect(await update(before.id.toUpperCase(), { secret })).toMatchObject({
      status: 200,
      body: { ...before, name: 'Renamed', hint: '6789' },
    })
    expect((await update(before.id, {})).body).toMatchObject({ name: 'Renamed', hint: '6789' })
  })

  test.each([
    [{ secret: {} }, '/secret/apiKey'],
    [{ secret: { apiKey: 'a b' } }, '/secret/apiKey'],
    [{ secret: { apiKey: 'x', host: 'y' } }, '/secret/host'],
    [{ name: '' }, '/name'],
    [{ provider: 'openai' }, '/provider'],
  ])('is refused with %j', async (body, pointer) => {
    const { id } = (await create()).body
    expect(await update(id, body)).toMatchObject({ status: 422, body: { errors: [{ pointer }] } })
  })

  test.each(['docker', 'local', 'none'])('the built-in %s is refused', async (provider) => {
    const { id } = await builtin(provider)
    const problem = { status: 409, body: { code: 'credential_read_only' } }
    expect(await update(id, { name: 'Mine' })).toMatchObject(problem)
    expect(await update(id, {})).toMatchObject(problem)
    expect(await app.call(schema.deleteCredential, { params: { credentialId: id } })).toMatchObject(problem)
  })
})

describe('deleting', () => {
  const remove = (credentialId: string) => app.call(schema.deleteCredential, { params: { credentialId } })

  test('succeeds once', async () => {
    const { id } = (await create()).body
    const statuses = await Promise.all([remove(id), remove(id)])
    expect(statuses.map(({ status }) => status).sort()).toEqual([204, 404])
    expect((await list({ limit: '200' })).credentials.map((one: schema.Credential) => one.id)).not.toContain(id)
  })

  test('is refused while it is in use', async () => {
    await app.database.pool.query('create table if not exists users_of_it (id uuid references credentials)')
    const { id } = (await create()).body
    await app.database.pool.query('insert into users_of_it values ($1)', [id])
    expect(await remove(id)).toMatchObject({ status: 409, body: { code: 'credential_in_use' } })

    await app.database.pool.query('delete from users_of_it')
    expect((await remove(id)).status).toBe(204)
  })
})

test('records every change in an unbroken audit log', async () => {
  await using fresh = await testApp()
  const { id } = (await fresh.call(schema.createCredential, { body: anthropic })).body
  const params = { credentialId: id }
  await fresh.call(schema.updateCredential, { params, body: { name: 'B', secret: { apiKey: 'sk-ant-2' } } })
  await fresh.call(schema.updateCredential, { params, body: {} })
  await fresh.call(schema.deleteCredential, { params })

  const { rows } = await fresh.database.pool.query(
    `select action, subject, detail, actor from audit_events where action like 'credential.%' order by sequence`,
  )
  const facts = { kind: 'model', provider: 'anthropic' }
  const actor = expect.stringMatching(/^key:/)
  expect(rows).toEqual([
    { action: 'credential.created', subject: id, detail: { ...facts, name: 'Team key' }, actor },
    { action: 'credential.updated', subject: id, detail: { ...facts, name: 'B', changed: 'name, secret' }, actor },
    { action: 'credential.deleted', subject: id, detail: { ...facts, name: 'B' }, actor },
  ])
  const { rows: workspaces } = await fresh.database.pool.query('select id from workspaces')
  expect(await findBrokenLink(fresh.database.db, workspaces[0]?.id)).toBeUndefined()
})
