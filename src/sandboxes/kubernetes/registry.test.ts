import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { type Handler, startServer } from '../../../test/support/loopback-servers.ts'
import { SandboxUnavailable, SandboxUnreachable } from '../sandbox.ts'
import { connectRegistry, originOf } from './registry.ts'
import { formatAuthFile, parseAuthFile, RegistrySettings } from './registry-settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'assay-registry-client-'))
const passwordFile = join(folder, 'password')
writeFileSync(passwordFile, 's3cret:word\n')
afterAll(() => rmSync(folder, { recursive: true }))

const BASIC = `Basic ${Buffer.from('robot:s3cret:word').toString('base64')}`

async function openServer(handler: Handler, settings: object = { username: 'robot', passwordFile }) {
  const server = await startServer(handler)
  const host = `127.0.0.1:${server.port}`
  const parsed = RegistrySettings.parse({ repository: `${host}/team/assay`, insecure: true, ...settings })
  return { server, host, registry: connectRegistry(parsed), [Symbol.asyncDispose]: server[Symbol.asyncDispose] }
}

const answer = (response: ServerResponse, status: number, headers: Record<string, string> = {}, body = '') =>
  void response.writeHead(status, headers).end(body)

const CONFIG = '{"config":{}}'
const DIGEST = `sha256:${createHash('sha256').update(CONFIG).digest('hex')}`

/** A registry with tokens, whose token service is at `/token` and whose storage is at `/storage`. */
const withTokens: Handler = ({ url = '', headers }: IncomingMessage, response) => {
  if (url.startsWith('/token'))
    return answer(response, headers.authorization === BASIC ? 200 : 401, {}, JSON.stringify({ token: 'granted' }))
  if (url.startsWith('/storage')) return answer(response, 200, {}, CONFIG)
  if (headers.authorization === 'Bearer granted') return answer(response, 307, { location: '/storage?signed=1' })
  const realm = `http://${headers.host}/token`
  const challenge = `Bearer realm="${realm}",service="registry",scope="repository:team/assay:pull"`
  return answer(response, 401, { 'www-authenticate': challenge })
}

test('requests a token with the scope that the registry names, and follows it to its storage without a credential', async () => {
  await using opened = await openServer(withTokens)
  expect((await opened.registry.readBlob(DIGEST)).toString()).toBe(CONFIG)
  expect(opened.server.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
    [`/v2/team/assay/blobs/${DIGEST}`, undefined],
    ['/token?service=registry&scope=repository%3Ateam%2Fassay%3Apull', BASIC],
    [`/v2/team/assay/blobs/${DIGEST}`, 'Bearer granted'],
    ['/storage?signed=1', undefined],
  ])
})

test('a token service that does not accept the password is named without the password', async () => {
  await using opened = await openServer(withTokens, { username: 'another', passwordFile })
  const refused = opened.registry.requireRead()
  await expect(refused).rejects.toThrow(SandboxUnavailable)
  await expect(refused).rejects.toThrow(/does not accept the credential/)
  await expect(refused).rejects.not.toThrow(/s3cret/)
})

test.each<[string, Handler, typeof SandboxUnavailable, RegExp]>([
  ['content of another digest', (_, response) => answer(response, 200, {}, 'x'), SandboxUnavailable, /does not match/],
  ['a missing permission', (_, response) => answer(response, 403, {}, 'no'), SandboxUnavailable, /may not read .*: no/],
  ['a full disk', (_, response) => answer(response, 503, {}, 'full'), SandboxUnreachable, /answered 503: full/],
  [
    'an unknown error',
    (_, response) => answer(response, 400, {}, 'odd'),
    SandboxUnavailable,
    /refused to read .*400 odd/,
  ],
  ['a closed connection', ({ socket }) => void socket.destroy(), SandboxUnreachable, /does not answer/],
])('reports %s', async (_, handler, kind, message) => {
  await using opened = await openServer(handler)
  await expect(opened.registry.readBlob(DIGEST)).rejects.toThrow(kind)
  await expect(opened.registry.readBlob(DIGEST)).rejects.toThrow(message)
})

test('a registry that accepts no push says so before a build', async () => {
  await using opened = await openServer((_, response) => answer(response, 405, {}, 'read-only'))
  await expect(opened.registry.requirePush()).rejects.toThrow(
    /refused to push images to .*\/team\/assay: 405 read-only/,
  )
})

test('a web page in place of a registry is reported, and an index of several platforms is not an image of ours', async () => {
  await using page = await openServer((_, response) => answer(response, 200, {}, '<html>'))
  await expect(page.registry.findManifest('tag')).rejects.toThrow(/does not answer as an image registry does/)
  await using other = await openServer((_, response) => answer(response, 404, {}, '<html>'))
  await expect(other.registry.requireRead()).rejects.toThrow(/does not answer as an image registry does/)
  await using index = await openServer((_, response) => answer(response, 200, {}, '{"manifests":[]}'))
  expect(await index.registry.findManifest('tag')).toBeUndefined()
})

test('the credential is never sent without TLS unless the settings say so', async () => {
  await using plain = await startServer((_, response) => answer(response, 200, {}, '{}'))
  const challenge = { 'www-authenticate': `Bearer realm="http://127.0.0.1:${plain.port}/token"` }
  const settings = RegistrySettings.parse({ repository: 'images.example.com/assay', username: 'a', passwordFile })
  const secure = connectRegistry(settings, {
    fetch: async () => new Response('', { status: 401, headers: challenge }),
  })
  await expect(secure.requireRead()).rejects.toThrow(/without TLS/)
  expect(plain.requests).toEqual([])
})

test.each([
  ['images.example.com/assay', false, 'https://images.example.com'],
  ['registry:5000/assay', true, 'http://registry:5000'],
  ['docker.io/team/assay', false, 'https://registry-1.docker.io'],
])('%s is asked at its own address', (repository, insecure, origin) => {
  expect(originOf({ repository, insecure })).toBe(origin)
})

test.each([
  [{ repository: 'assay' }, /registry and a path/],
  [{ repository: 'team/assay' }, /registry and a path/],
  [{ repository: 'https://images.example.com/assay' }, /registry and a path/],
  [{ repository: 'images.example.com/assay:latest' }, /registry and a path/],
  [{ repository: 'images.example.com/assay', username: 'a' }, /username and passwordFile together/],
  [{ repository: 'images.example.com/a', username: 'a', passwordFile: 'b', authFile: 'c' }, /either username/],
  [{ repository: 'images.example.com/assay', password: 'secret' }, /password/],
])('refuses the settings %j', (settings, message) => {
  expect(RegistrySettings.safeParse(settings).error?.message).toMatch(message)
})

test('reads and writes files with credentials', () => {
  const credential = { username: 'robot', password: 's3cret:word' }
  const text = formatAuthFile('images.example.com/team/assay', credential)
  expect(parseAuthFile(text, 'images.example.com')).toEqual(credential)
  const hub = { auths: { 'https://index.docker.io/v1/': { auth: Buffer.from('robot:x').toString('base64') } } }
  expect(parseAuthFile(JSON.stringify(hub), 'docker.io')).toEqual({ username: 'robot', password: 'x' })
  expect(() => parseAuthFile('{"credsStore":"desktop"}', 'a.example')).toThrow(
    /no user name and password for a.example/,
  )
  expect(() => parseAuthFile('s3cret', 'a.example')).toThrow(/not in the format/)
  expect(() => parseAuthFile('s3cret', 'a.example')).not.toThrow(/s3cret/)
  expect(formatAuthFile('images.example.com/assay', undefined)).toBe('{"auths":{}}')
})
