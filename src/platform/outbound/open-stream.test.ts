import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { startServer } from '../../../test/support/loopback-servers.ts'
import { createOpenStream, NotConnected } from './open-stream.ts'
import { OutboundFailed, OutboundRefused } from './outbound.ts'
import { cacheLookups } from './public-host.ts'

const signal = new AbortController().signal
const sent = { method: 'POST', headers: {}, body: Buffer.from('hello'), signal }

test('returns a response before its body has ended', async () => {
  const go = Promise.withResolvers<void>()
  await using server = await startServer(async (_, response) => {
    response.writeHead(201, { 'x-one': 'a' }).write('first ')
    await go.promise
    response.end('last')
  })

  const answer = await createOpenStream()(`http://127.0.0.1:${server.port}/a?b=c`, { ...sent, trust: 'operator' })
  go.resolve() // only now does the server go on

  expect([answer.status, answer.headers['x-one'], await text(answer.body)]).toEqual([201, 'a', 'first last'])
  expect(server.requests).toMatchObject([{ method: 'POST', path: '/a?b=c' }])
})

test.each(['http://example.com/', 'https://127.0.0.1/', 'https://user:word@example.com/', 'nonsense'])(
  'refuses a URL of a client: %s',
  async (url) => {
    const open = createOpenStream({ resolve: async () => ['93.184.216.34', '10.0.0.1'] })
    await expect(open(url, { ...sent, trust: 'client' })).rejects.toThrow(OutboundRefused)
  },
)

test('refuses a name that also has a private address', async () => {
  const open = createOpenStream({ resolve: async () => ['93.184.216.34', '10.0.0.1'] })
  const refused = open('https://inside.example/', { ...sent, trust: 'client' })
  await expect(refused).rejects.toMatchObject({ reason: 'address_not_public' })
})

test('distinguishes a refused connection from one that broke after the request was sent', async () => {
  await using server = await startServer((_, response) => response.destroy())
  const open = createOpenStream()
  const at = (port: number) => open(`http://127.0.0.1:${port}/`, { ...sent, trust: 'operator' })

  await expect(at(9)).rejects.toThrow(NotConnected)
  const broken = await at(server.port).catch((error: unknown) => error)
  expect(broken).toBeInstanceOf(OutboundFailed)
  expect(broken).not.toBeInstanceOf(NotConnected)
})

test('does not quote a key that is not a valid header value', async () => {
  const headers = { 'x-api-key': 'sk-canary\r\nx-evil: 1' }
  const failed = createOpenStream()('http://127.0.0.1:9/', { ...sent, headers, trust: 'operator' })
  await expect(failed).rejects.toMatchObject({
    reason: 'header_not_valid',
    message: expect.not.stringContaining('canary'),
  })
})

test('caches lookups but not their failures', async () => {
  const asked: string[] = []
  const resolve = cacheLookups(async (host) => {
    asked.push(host)
    if (asked.length === 1) throw new Error('no such name')
    return ['93.184.216.34']
  })

  await expect(resolve('a.example')).rejects.toThrow('no such name')
  expect(await resolve('a.example')).toEqual(['93.184.216.34'])
  expect(await resolve('a.example')).toEqual(['93.184.216.34'])
  expect(await resolve('b.example')).toEqual(['93.184.216.34'])
  expect(asked).toEqual(['a.example', 'a.example', 'b.example'])
})
