import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { createWorkspace } from '../workspaces/workspaces.ts'
import { acceptWithoutCheck } from './checks.ts'
import {
  type CredentialDeps,
  createCredential,
  deleteCredential,
  findCredential,
  listProviders,
  readCredential,
  updateCredential,
} from './credentials.ts'
import { token } from './fields.ts'
import { openKeyring } from './master-key.ts'
import type { Credential } from './schema.ts'
import { SealBroken } from './seal.ts'
import { checkCredential, openSecret } from './secrets.ts'

let database: TestDatabase
let dataFolder: string
let tools: CredentialDeps
let workspaceId: string
let otherWorkspaceId: string

beforeAll(async () => {
  database = await testDatabase()
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-secrets-'))
  const { db } = database
  const keyring = await openKeyring({ db, dataFolder })
  tools = { db, keyring, environment: {}, upstreams: {}, outbound: createOutbound() }
  workspaceId = await makeWorkspace('one')
  otherWorkspaceId = await makeWorkspace('two')
})
afterAll(async () => {
  await database[Symbol.asyncDispose]()
  await rm(dataFolder, { recursive: true })
})

test('a secret opens only in its workspace', async () => {
  const { id } = await store('secret-1')
  expect(await openSecret(tools, workspaceId, id)).toEqual({
    kind: 'model',
    provider: 'openai',
    secret: { apiKey: 'secret-1' },
  })
  expect(await openSecret(tools, otherWorkspaceId, id)).toBeUndefined()
  expect(await findCredential(tools, otherWorkspaceId, id)).toBeUndefined()
  expect(await openSecret(tools, crypto.randomUUID(), id)).toBeUndefined()
})

test('a new secret takes effect at once, and a deleted one is unusable at once', async () => {
  const credential = await store('secret-1')
  const opened = async () => (await openSecret(tools, workspaceId, credential.id))?.secret.apiKey
  expect(await opened()).toBe('secret-1')
  await updateCredential(tools, by(), credential, { secret: { apiKey: 'secret-2' } })
  expect(await opened()).toBe('secret-2')
  await deleteCredential(tools, by(), credential)
  expect(await opened()).toBeUndefined()
})

test('concurrent updates leave one complete secret', async () => {
  const credential = await store('first')
  const keys = Array.from({ length: 8 }, (_, place) => `key-${place}`)
  await Promise.all(keys.map((apiKey) => updateCredential(tools, by(), credential, { secret: { apiKey } })))
  expect(keys).toContain((await openSecret(tools, workspaceId, credential.id))?.secret.apiKey)
})

test('records the last use to the minute; a check does not count', async () => {
  const { id } = await store('secret')
  const lastUsedAt = async () => (await readCredential(tools, workspaceId, id)).lastUsedAt
  await checkCredential({ ...tools, upstreams: { openai: 'http://127.0.0.1:9' } }, workspaceId, await readOwn(id))
  expect(await lastUsedAt()).toBeNull()

  await openSecret(tools, workspaceId, id)
  const first = await lastUsedAt()
  expect(Date.now() - Date.parse(first ?? '')).toBeLessThan(60_000)
  await openSecret(tools, workspaceId, id)
  expect(await lastUsedAt()).toBe(first)

  await database.pool.query(`update credentials set last_used_at = now() - interval '61 seconds' where id = $1`, [id])
  await openSecret(tools, workspaceId, id)
  expect(Date.parse((await lastUsedAt()) ?? '')).toBeGreaterThanOrEqual(Date.parse(first ?? ''))
})

describe('a row that was tampered with does not open, and a new secret repairs it:', () => {
  const flip = (column: string) => `set ${column} = set_bit(${column}, 100, 1 - get_bit(${column}, 100))`
  const take = (columns: string) =>
    `set (${columns}) = (select ${columns} from credentials where id = '$OTHER')`.replace('(version)', 'row(version)')
  test.each([
    ['the ciphertext of another', take('ciphertext, hint')],
    ['the data key of another', take('wrapped_key, hint')],
    ['all that is sealed in another', take('ciphertext, wrapped_key, master_key_id, version')],
    ['a bit of the ciphertext', flip('ciphertext')],
    ['a bit of the data key', flip('wrapped_key')],
    ['an old version', 'set version = version - 1'],
    ['another provider, who would be sent the key', `set provider = 'openrouter'`],
    ['nothing at all', `set ciphertext = ''`],
  ])('%s', async (_, change) => {
    const credential = await store('secret')
    const other = await store('other')
    await updateCredential(tools, by(), other, { secret: { apiKey: 'other' } })
    await updateCredential(tools, by(), credential, { secret: { apiKey: 'secret' } })
    await database.pool.query(`update credentials ${change.replace('$OTHER', other.id)} where id = $1`, [credential.id])

    const { id } = credential
    await expect(openSecret(tools, workspaceId, id)).rejects.toThrow(SealBroken)
    expect(await checkCredential(tools, workspaceId, await readOwn(id))).toMatchObject({
      ok: false,
      detail: 'The stored secret cannot be opened. Replace it with PATCH.',
    })

    await updateCredential(tools, by(), await readOwn(id), { secret: { apiKey: 'mended' } })
    expect((await openSecret(tools, workspaceId, id))?.secret).toEqual({ apiKey: 'mended' })
    expect((await openSecret(tools, workspaceId, other.id))?.secret).toEqual({ apiKey: 'other' })
  })

  test('a row moved to another workspace', async () => {
    const { id } = await store('secret')
    await database.pool.query('update credentials set workspace_id = $1 where id = $2', [otherWorkspaceId, id])
    await expect(openSecret(tools, otherWorkspaceId, id)).rejects.toThrow(SealBroken)
  })
})

test('a workspace can add providers, and keeps their credentials when they are removed', async () => {
  const custom = {
    kind: 'model',
    provider: 'custom/ours',
    fields: [token('apiKey')],
    check: acceptWithoutCheck('Asked ours.'),
  } as const
  const extended: CredentialDeps = {
    ...tools,
    customProviders: async (_, workspace) =>
      workspace === workspaceId ? [{ ...custom, fields: [...custom.fields] }] : [],
  }
  const options = { kind: 'model', provider: 'custom/ours', name: 'Ours', secret: { apiKey: 'k' } } as const

  const credential = await createCredential(extended, by(), options)
  expect(await checkCredential(extended, workspaceId, credential)).toMatchObject({ ok: true, detail: 'Asked ours.' })
  expect((await listProviders(extended, workspaceId)).at(-1)?.provider).toBe('custom/ours')
  await expect(createCredential(extended, { ...by(), workspaceId: otherWorkspaceId }, options)).rejects.toMatchObject({
    extra: { errors: [{ pointer: '/provider' }] },
  })

  expect(await checkCredential(tools, workspaceId, credential)).toMatchObject({
    ok: false,
    detail: 'The provider custom/ours no longer exists.',
  })
  expect(await openSecret(tools, workspaceId, credential.id)).toMatchObject({ secret: { apiKey: 'k' } })
})

const by = () => ({ workspaceId, actor: 'system' })

const store = (apiKey: string): Promise<Credential> =>
  createCredential(tools, by(), { kind: 'model', provider: 'openai', name: 'x', secret: { apiKey } })

const readOwn = (id: string): Promise<Credential> => readCredential(tools, workspaceId, id)

async function makeWorkspace(login: string): Promise<string> {
  const options = { login, name: login, kind: 'org' } as const
  return (await createWorkspace(database.db, options, { actor: 'system' })).row.id
}
