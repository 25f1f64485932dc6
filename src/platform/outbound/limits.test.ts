import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { startServer, waitForHangUp } from '../../../test/support/loopback-servers.ts'
import { createOutbound, type OutboundInit } from './outbound.ts'

const outbound = createOutbound()
const at = ({ port }: { port: number }) => `http://127.0.0.1:${port}/`
const operator: OutboundInit = { trust: 'operator' }

test('reads a body of exactly bytesMax and refuses one byte more', async () => {
  await using server = await startServer((_, response) => response.end('x'.repeat(1_000)))

  const fits = await outbound.fetch(at(server), { trust: 'operator', bytesMax: 1_000 })
  const tooLarge = await outbound.fetch(at(server), { trust: 'operator', bytesMax: 999 })

  expect(await fits.text()).toHaveLength(1_000)
  await expect(tooLarge.text()).rejects.toMatchObject({ reason: 'response_too_large' })
})

test('cuts an endless body at 10 MiB and closes the connection', async () => {
  let sent = 0
  await using server = await startServer((_, response) => {
    const more = () => {
      do sent += 65_536
      while (response.write(Buffer.alloc(65_536)))
    }
    response.on('drain', more)
    more()
  })

  const answer = await outbound.fetch(at(server), operator)

  await expect(answer.arrayBuffer()).rejects.toMatchObject({ reason: 'response_too_large' })
  await waitForHangUp(server)
  expect(sent).toBeLessThan(30 * 1024 * 1024)
})

test('the limit applies to the decompressed body', async () => {
  const packed = gzipSync(Buffer.alloc(20 * 1024 * 1024))
  await using server = await startServer((_, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed),
  )

  const answer = await outbound.fetch(at(server), operator)

  expect(packed.byteLength).toBeLessThan(100_000)
  await expect(answer.arrayBuffer()).rejects.toMatchObject({ reason: 'response_too_large' })
})

test('times out when a server never responds', async () => {
  await using server = await startServer(() => undefined)

  const request = outbound.fetch(at(server), { trust: 'operator', timeoutMs: 100 })

  await expect(request).rejects.toMatchObject({ name: 'OutboundFailed', reason: 'timed_out' })
})

test('times out when a server responds too slowly', async () => {
  await using server = await startServer((_, response) => {
    const timer = setInterval(() => response.write('.'), 10)
    response.on('close', () => clearInterval(timer))
  })

  const answer = await outbound.fetch(at(server), { trust: 'operator', timeoutMs: 200 })

  await expect(answer.text()).rejects.toMatchObject({ name: 'OutboundFailed', reason: 'timed_out' })
  await waitForHangUp(server)
})

test('one deadline covers all redirects', async () => {
  await using server = await startServer((request, response) => {
    if (request.url === '/') response.writeHead(302, { location: 'http://slow.example:8080/' }).end()
  })
  const resolve = () => new Promise<never>(() => undefined)

  const request = createOutbound({ resolve }).fetch(at(server), { trust: 'operator', timeoutMs: 150 })

  await expect(request).rejects.toMatchObject({ reason: 'timed_out' })
})

test('closes an unread body at the deadline', async () => {
  await using server = await startServer((_, response) => response.write('.'))

  await outbound.fetch(at(server), { trust: 'operator', timeoutMs: 200 })

  await waitForHangUp(server)
})

test('a caller can abort and gets its own reason', async () => {
  await using server = await startServer((_, response) => response.write('.'))
  const stopped = new Error('the trial was cancelled')
  const caller = new AbortController()

  const answer = await outbound.fetch(at(server), { trust: 'operator', signal: caller.signal })
  caller.abort(stopped)

  await expect(answer.text()).rejects.toBe(stopped)
  await expect(outbound.fetch(at(server), { trust: 'operator', signal: caller.signal })).rejects.toBe(stopped)
})

test('reports a connection lost in the middle of the body', async () => {
  await using server = await startServer((request, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('half', () => request.socket.destroy())
  })

  const answer = await outbound.fetch(at(server), operator)

  await expect(answer.text()).rejects.toMatchObject({ name: 'OutboundFailed', reason: 'unreachable' })
})

test('reports an invalid status', async () => {
  await using server = await startServer((request) =>
    request.socket.end('HTTP/1.1 999 Strange\r\ncontent-length: 0\r\n\r\n'),
  )

  await expect(outbound.fetch(at(server), operator)).rejects.toMatchObject({ reason: 'bad_response' })
})

test('returns empty responses, error statuses and headers', async () => {
  await using server = await startServer((request, response) => {
    response.writeHead(request.method === 'DELETE' ? 204 : 404, { 'x-request-id': '7' }).end()
  })

  const deleted = await outbound.fetch(at(server), { trust: 'operator', method: 'delete' })
  const missing = await outbound.fetch(at(server), { trust: 'operator', method: 'HEAD' })

  expect([deleted.status, await deleted.text()]).toEqual([204, ''])
  expect([missing.status, missing.headers.get('x-request-id')]).toEqual([404, '7'])
})

test('keeps the boundary of forms and stores no cookies', async () => {
  const bodies: string[] = []
  await using server = await startServer(async (request, response) => {
    bodies.push(Buffer.concat(await request.toArray()).toString())
    response.writeHead(200, { 'set-cookie': 'a=1' }).end()
  })
  const form = new FormData()
  form.set('name', 'value')

  await outbound.fetch(at(server), { trust: 'operator', method: 'POST', body: form })
  await outbound.fetch(at(server), { trust: 'operator' })

  const [first, second] = server.requests
  const boundary = /boundary=(.+)$/.exec(first?.headers['content-type'] ?? '')?.[1] ?? 'none'
  expect(bodies[0]).toContain(`--${boundary}`)
  expect(bodies[0]).toContain('name="name"')
  expect(second?.headers.cookie).toBeUndefined()
})
