import { describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import type { CredentialDeps } from './credentials.ts'
import { openKeyring } from './master-key.ts'
import * as schema from './schema.ts'
import { openSecret } from './secrets.ts'

const KEYS = {
  ANTHROPIC_API_KEY: ' sk-ant-of-the-server \n',
  OPENROUTER_API_KEY: 'short',
  HARBOR_API_KEY: 'sk-harbor-of-the-server',
  GITHUB_TOKEN: 'ghp_of_the_server',
  GEMINI_API_KEY: ' ',
}
const OFF = { ASSAY_CREDENTIAL_STORAGE: 'off' }

type ListedCredentials = schema.Credential[]

const seen = async (app: TestApp, options: object = {}): Promise<ListedCredentials> =>
  (await app.call(schema.listCredentials, options)).body.credentials
const fromEnvironment = (credentials: ListedCredentials) =>
  credentials.filter(({ source }) => source === 'environment').map(({ provider, name, hint }) => [provider, name, hint])

const ofTheServer = expect.arrayContaining([
  ['anthropic', 'ANTHROPIC_API_KEY', 'rver'],
  ['openrouter', 'OPENROUTER_API_KEY', ''],
  ['harbor', 'HARBOR_API_KEY', 'rver'],
  ['github', 'GITHUB_TOKEN', 'rver'],
])

describe('keys in the environment of the server', () => {
  test('are visible only in the workspace local when storage is on', async () => {
    await using app = await testApp(KEYS)
    expect(fromEnvironment(await seen(app))).toEqual(ofTheServer)
    expect(fromEnvironment(await seen(app))).toHaveLength(4)

    const other = await app.otherWorkspace()
    const theirs = await seen(app, { key: other.key, params: { org: other.login } })
    expect(theirs.map(({ source }) => source)).toEqual(['builtin', 'builtin', 'builtin', 'builtin'])
  })

  test('are visible in every workspace, each with its own id, when storage is off', async () => {
    await using app = await testApp({ ...KEYS, ...OFF })
    const other = await app.otherWorkspace()
    const ours = await seen(app)
    const theirs = await seen(app, { key: other.key, params: { org: other.login } })
    expect(fromEnvironment(ours)).toEqual(ofTheServer)
    expect(fromEnvironment(theirs)).toEqual(ofTheServer)
    expect(new Set([...ours, ...theirs].map(({ id }) => id)).size).toBe(16)
  })

  test('cannot be changed or deleted', async () => {
    await using app = await testApp(KEYS)
    const { id = '' } = (await seen(app)).find(({ source }) => source === 'environment') ?? {}
    const params = { credentialId: id }
    const problem = { status: 409, body: { code: 'credential_read_only' } }
    expect(await app.call(schema.updateCredential, { params, body: { name: 'Mine' } })).toMatchObject(problem)
    expect(await app.call(schema.deleteCredential, { params })).toMatchObject(problem)
  })

  test('open only in the workspaces that see them', async () => {
    await using app = await testApp(KEYS)
    const tools = await toolsOf(app, KEYS)
    const { id = '' } = (await seen(app)).find(({ provider }) => provider === 'anthropic') ?? {}
    expect(await openSecret(tools, await localId(app), id)).toEqual({
      kind: 'model',
      provider: 'anthropic',
      secret: { apiKey: 'sk-ant-of-the-server' },
    })
    const other = await app.otherWorkspace()
    expect(await openSecret(tools, other.id, id)).toBeUndefined()
  })
})

describe('with storage off', () => {
  test('nothing is stored and the workspace reports it; an invalid body is reported first', async () => {
    await using app = await testApp(OFF)
    const body = { kind: 'model', provider: 'openai', name: 'x', secret: { apiKey: 'k' } } as const
    const answer = await app.call(schema.createCredential, { body })
    expect(answer).toMatchObject({ status: 409, body: { code: 'credential_storage_off' } })
    const wrong = await app.call(schema.createCredential, { body: { ...body, secret: {} } })
    expect(wrong.status).toBe(422)
    const { rows } = await app.database.pool.query('select (select count(*) from master_keys) as keys')
    expect(rows).toEqual([{ keys: 0 }])
  })

  test('stored credentials are unavailable until storage is on again', async () => {
    await using app = await testApp()
    const body = { kind: 'model', provider: 'openai', name: 'x', secret: { apiKey: 'k' } } as const
    const { id } = (await app.call(schema.createCredential, { body })).body
    const on = await toolsOf(app, {})
    const off = { ...on, keyring: undefined }
    expect(await openSecret(off, await localId(app), id)).toBeUndefined()
    expect(await openSecret(on, await localId(app), id)).toMatchObject({ secret: { apiKey: 'k' } })
  })
})

test('a built-in credential opens to an empty secret', async () => {
  await using app = await testApp()
  const tools = await toolsOf(app, {})
  const workspaceId = await localId(app)
  const opened = await Promise.all((await seen(app)).map(({ id }) => openSecret(tools, workspaceId, id.toUpperCase())))
  expect(opened.map((one) => [one?.kind, one?.provider, one?.secret]).sort()).toEqual([
    ['model', 'none', {}],
    ['sandbox', 'docker', {}],
    ['sandbox', 'kubernetes', {}],
    ['sandbox', 'local', {}],
  ])
})

async function toolsOf(app: TestApp, environment: Record<string, string>): Promise<CredentialDeps> {
  const { db } = app.database
  const keyring = await openKeyring({ db, dataFolder: app.tools.config.dataFolder })
  return { db, keyring, environment, upstreams: {}, outbound: createOutbound() }
}

const localId = async (app: TestApp): Promise<string> =>
  (await app.database.pool.query(`select id from workspaces where login = 'local'`)).rows[0]?.id
