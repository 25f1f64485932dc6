import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { type CodeHostServer, startCodeHost } from '../../test/support/code-host.ts'
import { temporaryFolder } from '../../test/support/harbor/folders.ts'
import { importBatch } from '../batches/schema.ts'
import { createCredential, deleteCredential } from '../credentials/schema.ts'
import {
  type ConnectRepositoryInput,
  connectRepository,
  listRepositories,
  readRepository,
  removeRepository,
} from './schema.ts'

let app: TestApp
let host: CodeHostServer
let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeAll(async () => {
  host = await startCodeHost()
  folder = await temporaryFolder()
  mkdirSync(join(folder.path, 'allowed/demo.git'), { recursive: true })
  mkdirSync(join(folder.path, 'other/secret.git'), { recursive: true })
  symlinkSync('../other', join(folder.path, 'allowed/link'))
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url, ASSAY_GIT_ALLOW: join(folder.path, 'allowed') })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

const at = (fullName: string) => {
  const [owner = '', name = ''] = fullName.split('/')
  return { params: { owner, name } }
}
const GITHUB: ConnectRepositoryInput = { source: { kind: 'github' } }
const connect = (fullName: string, body: ConnectRepositoryInput = GITHUB) =>
  app.call(connectRepository, { ...at(fullName), body })
const git = (url: string, more: Partial<ConnectRepositoryInput> = {}): ConnectRepositoryInput => ({
  source: { kind: 'git', url },
  ...more,
})
const read = (fullName: string) => app.call(readRepository, at(fullName))
const remove = (fullName: string) => app.call(removeRepository, at(fullName))
const credential = async (secret: Record<string, string>, kind: 'code-host' | 'model' = 'code-host') => {
  const provider = kind === 'model' ? 'openai' : 'github'
  return (await app.call(createCredential, { body: { kind, provider, name: 'c', secret } })).body.id
}

test('connects, reads, lists and removes a repository of the code host', async () => {
  const { id } = host.add('Acme/Widgets')
  const connected = await connect('ACME/widgets')
  expect(connected).toMatchObject({
    status: 201,
    body: {
      id,
      owner: 'Acme',
      name: 'Widgets',
      fullName: 'Acme/Widgets',
      visibility: 'public',
      credentialId: null,
      source: { kind: 'github' },
    },
  })
  expect((await read('acme/WIDGETS')).body).toEqual(connected.body)
  expect((await app.call(listRepositories)).body.repos).toContainEqual(connected.body)
  expect(await connect('acme/widgets')).toMatchObject({ status: 200, body: connected.body })
  expect((await remove('acme/widgets')).status).toBe(204)
  expect((await read('acme/widgets')).status).toBe(404)
  expect((await remove('acme/widgets')).status).toBe(404)
  expect((await app.call(listRepositories)).body.repos).not.toContainEqual(connected.body)
  expect(await connect('acme/widgets')).toMatchObject({ status: 201, body: { id } })
})

test('answers 404 for an inaccessible repository and 422 for a visibility that the code host reports', async () => {
  host.add('acme/secret', 'private')
  const moved = host.add('acme/old-name')
  host.rename(moved, 'new-name')
  expect(await connect('acme/nothing')).toMatchObject({ status: 404, body: { code: 'repository_not_found' } })
  expect(await connect('acme/secret')).toMatchObject({ status: 404, body: { code: 'repository_not_found' } })
  expect((await connect('acme/old-name')).body.detail).toBe('acme/old-name was renamed to acme/new-name.')
  const refused = await connect('acme/new-name', { ...GITHUB, visibility: 'public' })
  expect(refused).toMatchObject({ status: 422, body: { errors: [{ pointer: '/visibility' }] } })
})

test('requires a credential for a private repository and prevents its deletion', async () => {
  const hidden = host.add('acme/hidden', 'private')
  host.addToken('ghp_seeing', [hidden])
  const credentialId = await credential({ token: 'ghp_seeing' })
  const connected = await connect('acme/hidden', { ...GITHUB, credentialId })
  expect(connected).toMatchObject({ status: 201, body: { credentialId, visibility: 'private' } })
  const forget = () => app.call(deleteCredential, { params: { credentialId } })
  expect(await forget()).toMatchObject({ status: 409, body: { code: 'credential_in_use' } })
  expect((await remove('acme/hidden')).status).toBe(204)
  expect((await forget()).status).toBe(204)
})

test('answers 422 for a credential of another kind, an unknown one or a rejected one', async () => {
  host.add('acme/open')
  const model = await credential({ apiKey: 'k' }, 'model')
  const revoked = await credential({ token: 'ghp_revoked' })
  const outcome = async (credentialId: string) => {
    const { status, body } = await connect('acme/open', { ...GITHUB, credentialId })
    return `${status} ${body.code}`
  }
  expect(await outcome(model)).toBe('422 invalid_request')
  expect(await outcome('00000000-0000-4000-8000-000000000000')).toBe('422 invalid_request')
  expect(await outcome(revoked)).toBe('422 code_host_access_refused')
  // Without one: the newest of the workspace.
  expect((await connect('acme/open')).body.code).toBe('code_host_access_refused')
  await app.call(deleteCredential, { params: { credentialId: revoked } })
  expect((await connect('acme/open')).status).toBe(201)
})

test('answers 503 with Retry-After for an unavailable code host', async () => {
  host.misbehave({ status: 429, headers: { 'retry-after': '9' } })
  const answer = await connect('acme/open')
  expect(answer).toMatchObject({ status: 503, body: { code: 'code_host_unavailable', retryable: true } })
  expect(answer.headers.get('retry-after')).toBe('9')
})

test('plain git gets its own id, keeps it, and is private by default', async () => {
  const first = await connect('Lab/Demo', git('https://git.example.org/demo.git'))
  expect(first).toMatchObject({ status: 201, body: { owner: 'Lab', name: 'Demo', visibility: 'private' } })
  expect(first.body.id).toBeGreaterThanOrEqual(2 ** 40)
  const second = await connect('lab/two', git('git@git.example.org:lab/two.git', { visibility: 'public' }))
  expect(second).toMatchObject({ status: 201, body: { visibility: 'public' } })
  expect(second.body.id).not.toBe(first.body.id)
  const changed = await connect('lab/demo', git('ssh://git@git.example.org/demo.git'))
  expect(changed).toMatchObject({ status: 200, body: { id: first.body.id } })
  await remove('lab/demo')
  const again = await connect('lab/demo', git('https://git.example.org/demo.git'))
  expect(again).toMatchObject({ status: 201, body: { id: first.body.id } })
})

test('ids of plain git do not reveal the number of repositories', async () => {
  const { key, login } = await app.otherWorkspace('counting')
  const ids: number[] = []
  for (let n = 0; n < 4; n++) {
    const params = { org: login, owner: 'lab', name: `counted-${n}` }
    const { body } = await app.call(connectRepository, { params, key, body: git('https://git.example.org/x.git') })
    ids.push(body.id)
  }
  expect(ids.every((id) => Number.isSafeInteger(id) && id >= 2 ** 40)).toBe(true)
  const gaps = ids.slice(1).map((id, at) => Math.abs(id - (ids[at] ?? 0)))
  expect(Math.min(...gaps)).toBeGreaterThan(1000)
})

test('answers 422 for an address that is not public, safe and allowed', async () => {
  const outcome = async (url: string) => {
    const { status, body } = await connect('lab/urls', git(url))
    return status === 422 ? body.errors[0].pointer : status
  }
  const refused = [
    'http://git.example.org/x.git',
    'https://localhost/x.git',
    'https://10.0.0.1/x.git',
    'https://169.254.169.254/x.git',
    'https://user:password@git.example.org/x.git',
    'ssh://git@127.0.0.1/x.git',
    'ssh://-oProxyCommand=evil/x.git',
    'ssh://git:password@git.example.org/x.git',
    'git@localhost:x.git',
    'git@git.example.org:-oProxyCommand=evil',
    '-oProxyCommand=evil@git.example.org:x.git',
    'https://93.184.216.34\\@127.0.0.1:22443/x.git',
    'https://93.184.216.34:443\\@127.0.0.1/x.git',
    'https://git.example.org./x.git',
    'https://git.example.org/x.git?service=x',
    'https://git.example.org/x.git#y',
    'https://git.example.org/x y.git',
    'https://git.example.org/x.git\n',
    'https://gít.example.org/x.git',
    'https://2130706433/x.git',
    'https://[fe80::1%25eth0]/x.git',
    'ssh://git@127.1/x.git',
    'ssh://git@2130706433/x.git',
    'ssh://git@0x7f.1/x.git',
    'ssh://git@[::1]/x.git',
    'ssh://git@[::ffff:127.0.0.1]/x.git',
    'ssh://git@localhost./x.git',
    'ssh://git@git.example.org\\@127.0.0.1/x.git',
    'ssh://git@git.example.org@127.0.0.1/x.git',
    'ssh://git%40git.example.org/x.git',
    'ssh://git@git.example.org/-oProxyCommand=evil',
    'ssh://git@git.example.org/x.git?x#y',
    'git@127.1:x.git',
    'git@2130706433:x.git',
    'git@LOCALHOST:x.git',
    'git@git.example.org:x.git\n-oProxyCommand=evil',
    'ext::sh -c id',
    'file::/etc',
    'https::http://127.0.0.1/',
    'file:///etc',
    'git://git.example.org/x.git',
    'relative/path',
    '/etc',
    join(folder.path, 'other/secret.git'),
    join(folder.path, 'allowed/link/secret.git'),
    join(folder.path, 'allowed/../other/secret.git'),
    join(folder.path, 'allowed-not'),
    join(folder.path, 'allowed/nothing.git'),
  ]
  for (const url of refused) expect(await outcome(url), url).toBe('/source/url')
  expect(await outcome(join(folder.path, 'allowed/demo.git'))).toBe(201)
})

test('treats a name that was taken by another repository as a new repository', async () => {
  const gone = host.add('acme/reborn')
  const first = await connect('acme/reborn')
  host.remove(gone)
  const { id } = host.add('Acme/Reborn')
  expect(await connect('acme/reborn')).toMatchObject({ status: 201, body: { id, name: 'Reborn' } })
  expect(first.body.id).not.toBe(id)
  const plain = await connect('acme/reborn', git('https://git.example.org/reborn.git'))
  expect(plain).toMatchObject({ status: 201, body: { source: { kind: 'git' } } })
  const { repos } = (await app.call(listRepositories)).body
  expect(
    repos.filter(
      (each: { owner: string }) => each.owner.toLowerCase() === 'acme' && /reborn/i.test(JSON.stringify(each)),
    ),
  ).toHaveLength(1)
})

test('connects a public repository automatically on the first write, and no other', async () => {
  host.add('Acme/Public')
  host.add('acme/private', 'private')
  const send = async (fullName: string) =>
    app.call(importBatch, { ...at(fullName), upload: buildArchive({ hello: smallTask() }) })
  expect((await read('acme/public')).status).toBe(404)
  expect((await send('acme/PUBLIC')).status).toBe(202)
  expect((await read('acme/public')).body).toMatchObject({ fullName: 'Acme/Public' })
  expect((await send('acme/private')).status).toBe(404)
  expect((await send('acme/nowhere')).status).toBe(404)
  host.misbehave({ status: 500 })
  expect(await send('acme/later')).toMatchObject({
    status: 503,
    body: {
      code: 'code_host_unavailable',
      detail: expect.stringMatching(/^The repository acme\/later is not connected.* assay repos connect acme\/later, /),
    },
  })
})

test('refuses to remove or replace a repository while a batch runs', async () => {
  await connect('lab/busy', git('https://git.example.org/busy.git'))
  await app.call(importBatch, { ...at('lab/busy'), upload: buildArchive({ hello: smallTask() }) })
  expect(await remove('lab/busy')).toMatchObject({ status: 409, body: { code: 'repository_busy' } })
  host.add('lab/busy')
  expect(await connect('lab/busy')).toMatchObject({ status: 409, body: { code: 'repository_busy' } })
  expect((await connect('lab/busy', git('https://git.example.org/still.git'))).status).toBe(200)
})

test('pages through repositories', async () => {
  const all = (await app.call(listRepositories)).body.repos
  const seen: unknown[] = []
  let cursor: string | null = null
  do {
    const query: Record<string, string> = { limit: '2', ...(cursor === null ? {} : { cursor }) }
    const { body } = await app.call(listRepositories, { query })
    seen.push(...body.repos)
    cursor = body.nextCursor
  } while (cursor !== null)
  expect(seen).toEqual(all)
})
