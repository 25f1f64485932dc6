import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type CodeHostServer, startCodeHost } from '../../test/support/code-host.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { type CodeHost, CodeHostUnavailable, createGithubHost } from './github.ts'

let server: CodeHostServer
beforeAll(async () => {
  server = await startCodeHost()
})
beforeEach(() => {
  server.requests.length = 0
})
afterAll(async () => server[Symbol.asyncDispose]())

const anybody = { host: 'github.com', token: undefined }

/** What every code host must do; each adapter stands here, in front of a fake of its host. */
const hosts: [string, () => CodeHost][] = [
  ['github', () => createGithubHost({ outbound: createOutbound(), baseUrl: server.url })],
]

describe.each(hosts)('%s', (_name, open) => {
  const find = (fullName: string, access: Parameters<CodeHost['findRepository']>[1] = anybody) => {
    const [owner = '', name = ''] = fullName.split('/')
    return open().findRepository({ owner, name }, access)
  }

  test('finds a repository case-insensitively and returns the casing of the host', async () => {
    const { id } = server.add('Acme/Demo')
    const repository = { id, owner: 'Acme', name: 'Demo', visibility: 'public' }
    expect(await find('aCME/dEMO')).toEqual({ kind: 'found', repository })
  })

  test('finds a private repository only with a token that has access', async () => {
    const hidden = server.add('acme/hidden', 'private')
    const internal = server.add('acme/internal', 'internal')
    server.addToken('seeing', [hidden, internal])
    server.addToken('blind')
    expect(await find('acme/hidden')).toEqual({ kind: 'unknown' })
    expect(await find('acme/hidden', { host: 'github.com', token: 'blind' })).toEqual({ kind: 'unknown' })
    const seen = await find('acme/hidden', { host: 'github.com', token: 'seeing' })
    expect(seen).toMatchObject({ kind: 'found', repository: { visibility: 'private' } })
    const half = await find('acme/internal', { host: 'github.com', token: 'seeing' })
    expect(half).toMatchObject({ kind: 'found', repository: { visibility: 'private' } })
  })

  test('follows a rename with the token', async () => {
    const repository = server.add('acme/before', 'private')
    server.addToken('mover', [repository])
    server.rename(repository, 'after')
    const found = await find('acme/before', { host: 'github.com', token: 'mover' })
    expect(found).toMatchObject({ kind: 'found', repository: { name: 'after', id: repository.id } })
    expect(server.requests.map(({ token }) => token)).toEqual(['mover', 'mover'])
  })

  test('does not follow a redirect to another host', async () => {
    await using other = await startCodeHost()
    server.misbehave({ status: 301, headers: { location: `${other.url}/repositories/1` } })
    await expect(find('acme/demo', { host: 'github.com', token: 'secret' })).rejects.toThrow(CodeHostUnavailable)
    expect(other.requests).toEqual([])
  })

  test('reports a rejected token as refused, not as unknown', async () => {
    server.add('acme/open')
    expect(await find('acme/open', { host: 'github.com', token: 'revoked' })).toMatchObject({ kind: 'refused' })
    server.misbehave({ status: 403 })
    expect(await find('acme/open')).toMatchObject({ kind: 'refused' })
  })

  test.each([
    ['a limit with the time it ends', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': in60() }, 403, 55, 60],
    ['a limit with seconds', { 'retry-after': '7' }, 429, 7, 7],
    ['a limit for days', { 'retry-after': '999999' }, 403, 3600, 3600],
  ])('reports %s as unavailable with the requested wait', async (_what, headers, status, least, most) => {
    server.misbehave({ status, headers })
    const error = await find('acme/demo').catch((caught: unknown) => caught)
    if (!(error instanceof CodeHostUnavailable)) throw error
    expect(error.retryAfterSeconds).toBeGreaterThanOrEqual(least)
    expect(error.retryAfterSeconds).toBeLessThanOrEqual(most)
  })

  test.each([
    ['an error', { status: 500 }],
    ['a page', { status: 200, body: '<html>' }],
    ['something else', { status: 200, body: '{"id":"x"}' }],
    ['far too much', { status: 200, body: `"${'x'.repeat(2 * 1024 * 1024)}"` }],
  ])('%s is unavailable', async (_what, trouble) => {
    server.misbehave(trouble)
    await expect(find('acme/demo')).rejects.toThrow(CodeHostUnavailable)
  })
})

test('reports an unreachable host as unavailable', async () => {
  const host = createGithubHost({ outbound: createOutbound(), baseUrl: 'http://127.0.0.1:9' })
  await expect(host.findRepository({ owner: 'a', name: 'b' }, anybody)).rejects.toThrow(CodeHostUnavailable)
})

test('sends a token for another host only to that host and never to a private address', async () => {
  const host = createGithubHost({ outbound: createOutbound(), baseUrl: server.url })
  const access = { host: '127.0.0.1', token: 'secret' }
  await expect(host.findRepository({ owner: 'a', name: 'b' }, access)).rejects.toThrow(CodeHostUnavailable)
  expect(server.requests).toEqual([])
})

function in60(): string {
  return String(Math.floor(Date.now() / 1000) + 60)
}
