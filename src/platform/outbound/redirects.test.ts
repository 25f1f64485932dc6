import { beforeAll, expect, test } from 'vitest'
import {
  type Certificate,
  OTHER_PUBLIC,
  PUBLIC,
  startServer,
  trustedCertificate,
} from '../../../test/support/loopback-servers.ts'
import { createOutbound, type OutboundInit } from './outbound.ts'
import { createPinnedAgent } from './pinned-connections.ts'

let tls: Certificate
beforeAll(async () => {
  tls = await trustedCertificate(['api.example.com', 'other.example.com'])
})

/** Both names resolve to public addresses, but every connection goes to this machine. */
const outbound = createOutbound({
  resolve: async (host) => [host === 'api.example.com' ? PUBLIC : OTHER_PUBLIC],
  agentFor: () => createPinnedAgent(['127.0.0.1']),
})
const client: OutboundInit = { trust: 'client' }

const redirecting = (location: string, status = 302) =>
  startServer((_, response) => response.writeHead(status, { location }).end(), { tls })
const answering = () => startServer((_, response) => response.end('hello'), { tls })

test.each(['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '2130706433', 'user@127.0.0.1'])(
  'a redirect of a client URL to %s is refused before a connection',
  async (host) => {
    await using here = await answering()
    await using far = await redirecting(`https://${host}:${here.port}/`)

    const request = outbound.fetch(`https://api.example.com:${far.port}/`, client)

    await expect(request).rejects.toMatchObject({ name: 'OutboundRefused' })
    expect(far.requests).toHaveLength(1)
    expect(here.connections).toEqual([])
  },
)

test('refuses a redirect to a name that resolves to loopback without connecting', async () => {
  await using here = await answering()
  await using far = await redirecting(`https://other.example.com:${here.port}/`)
  const { fetch } = createOutbound({
    resolve: async (host) => [host === 'api.example.com' ? PUBLIC : '127.0.0.1'],
    agentFor: () => createPinnedAgent(['127.0.0.1']),
  })

  const request = fetch(`https://api.example.com:${far.port}/`, client)

  await expect(request).rejects.toMatchObject({ reason: 'address_not_public' })
  expect(here.connections).toEqual([])
})

test.each([
  ['http://other.example.com/', 'redirect_downgrade'],
  ['file:///etc/passwd', 'scheme_not_allowed'],
  ['https://', 'invalid_url'],
  ['https://other.example.com:25/', 'port_not_allowed'],
])('a redirect to %s is refused: %s', async (location, reason) => {
  await using far = await redirecting(location)

  await expect(outbound.fetch(`https://api.example.com:${far.port}/`, client)).rejects.toMatchObject({ reason })
})

test('allows a private operator URL and refuses its redirects to private addresses, even to the same host', async () => {
  await using here = await answering()
  await using server = await startServer((_, response) =>
    response.writeHead(302, { location: `http://127.0.0.1:${here.port}/` }).end(),
  )

  const request = createOutbound().fetch(`http://127.0.0.1:${server.port}/`, { trust: 'operator' })

  await expect(request).rejects.toMatchObject({ reason: 'host_not_public' })
  expect(here.connections).toEqual([])
})

test('a redirect to another origin drops every credential header and keeps the rest', async () => {
  await using there = await answering()
  await using far = await redirecting(`https://other.example.com:${there.port}/moved`, 307)
  const secrets = { authorization: 'Bearer k', 'x-api-key': 'k', 'X-Goog-Api-Key': 'k', cookie: 'k', 'api-key': 'k' }

  const answer = await outbound.fetch(`https://api.example.com:${far.port}/`, {
    trust: 'client',
    method: 'POST',
    headers: { ...secrets, 'x-request-id': '7' },
    body: '{}',
  })

  expect(await answer.text()).toBe('hello')
  expect(far.requests[0]?.headers).toMatchObject({ authorization: 'Bearer k', 'x-api-key': 'k', cookie: 'k' })
  expect(there.requests).toMatchObject([{ method: 'POST', path: '/moved', headers: { 'x-request-id': '7' } }])
  const kept = Object.keys(there.requests[0]?.headers ?? {})
  expect(kept.filter((name) => Object.keys(secrets).some((secret) => secret.toLowerCase() === name))).toEqual([])
})

test('a redirect within the origin keeps the key', async () => {
  await using far = await startServer(
    (request, response) =>
      request.url === '/new' ? response.end('hello') : response.writeHead(301, { location: '/new' }).end(),
    { tls },
  )

  const headers = { 'x-api-key': 'k' }
  const answer = await outbound.fetch(`https://api.example.com:${far.port}/old`, { trust: 'client', headers })

  expect(await answer.text()).toBe('hello')
  expect(far.requests.map(({ path, headers }) => [path, headers['x-api-key']])).toEqual([
    ['/old', 'k'],
    ['/new', 'k'],
  ])
})

test.each([
  [301, 'POST', 'GET'],
  [302, 'POST', 'GET'],
  [303, 'PUT', 'GET'],
  [307, 'POST', 'POST'],
  [308, 'PUT', 'PUT'],
])('after %i a %s becomes a %s', async (status, method, then) => {
  const bodies: string[] = []
  await using far = await startServer(
    async (request, response) => {
      bodies.push(Buffer.concat(await request.toArray()).toString())
      if (request.url === '/new') response.end()
      else response.writeHead(status, { location: '/new' }).end()
    },
    { tls },
  )

  await outbound.fetch(`https://api.example.com:${far.port}/`, { trust: 'client', method, body: 'text' })

  expect(far.requests.map((request) => request.method)).toEqual([method, then])
  expect(bodies).toEqual(['text', then === 'GET' ? '' : 'text'])
  expect(far.requests[1]?.headers['content-type']).toBe(then === 'GET' ? undefined : 'text/plain;charset=UTF-8')
})

test('does not send a streamed body twice', async () => {
  await using far = await redirecting('/new', 307)
  const body = new Blob(['text']).stream()

  const request = outbound.fetch(`https://api.example.com:${far.port}/`, { trust: 'client', method: 'POST', body })

  await expect(request).rejects.toMatchObject({ reason: 'redirect_needs_body_again' })
})

test('follows three redirects and refuses a fourth', async () => {
  await using far = await startServer(
    (request, response) => {
      const left = Number(request.url?.slice(1))
      if (left === 0) response.end('hello')
      else response.writeHead(302, { location: `/${left - 1}` }).end()
    },
    { tls },
  )
  const at = (left: number) => `https://api.example.com:${far.port}/${left}`

  expect(await (await outbound.fetch(at(3), client)).text()).toBe('hello')
  await expect(outbound.fetch(at(4), client)).rejects.toMatchObject({ reason: 'too_many_redirects' })
})

test('the caller can handle redirects itself or forbid them', async () => {
  await using far = await redirecting('https://127.0.0.1/')
  const url = `https://api.example.com:${far.port}/`

  const seen = await outbound.fetch(url, { trust: 'client', redirect: 'manual' })
  const unwanted = outbound.fetch(url, { trust: 'client', redirect: 'error' })

  expect([seen.status, seen.headers.get('location')]).toEqual([302, 'https://127.0.0.1/'])
  await expect(unwanted).rejects.toMatchObject({ reason: 'redirect_not_wanted' })
})
