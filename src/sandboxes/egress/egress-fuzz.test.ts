import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createEgress } from './egress.ts'

const PUBLIC = '93.184.216.34'
const NAMES: Record<string, string[]> = {
  'good.example': [PUBLIC],
  'inside.example': ['10.0.0.7'],
  'half.example': [PUBLIC, '127.0.0.1'],
}

/** The server behind every public address. It answers each connection with these bytes. */
let answerBytes: Uint8Array = new Uint8Array()
const dialled = new Set<string>()
const escaped: unknown[] = []
const noteEscaped = (error: unknown) => void escaped.push(error)

let upstream: Server
let proxy: Server
const egress = createEgress(
  { mode: 'public', hosts: [] },
  {
    idleMs: 50,
    resolve: async (host) => NAMES[host] ?? Promise.reject(new Error('ENOTFOUND')),
    async dial(addresses, port) {
      for (const address of addresses) dialled.add(`${address}:${port}`)
      const socket = connect(portOf(upstream), '127.0.0.1')
      await once(socket, 'connect')
      return socket
    },
  },
)

const portOf = (server: Server): number => (server.address() as AddressInfo).port

async function listening(onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, onConnection).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

beforeAll(async () => {
  upstream = await listening((socket) => {
    socket.on('error', () => {})
    socket.resume().end(answerBytes)
  })
  proxy = await listening(egress.onConnection)
  process.on('uncaughtException', noteEscaped).on('unhandledRejection', noteEscaped)
})
beforeEach(() => dialled.clear())
afterAll(() => {
  process.off('uncaughtException', noteEscaped).off('unhandledRejection', noteEscaped)
  egress.close()
  proxy.close()
  upstream.close()
})

/** Sends pieces as a sandbox would, and reads until the proxy closes the connection. */
async function send(pieces: readonly Uint8Array[]): Promise<string> {
  const socket = connect(portOf(proxy), '127.0.0.1')
  socket.on('error', () => {})
  const closed = new Promise((resolve) => socket.once('close', resolve))
  const answer = text(socket).catch(() => '')
  for (const piece of pieces) socket.write(piece)
  // A client that closed its half at once would get no answer.
  socket.once('data', () => socket.end())
  await closed
  return answer
}

/** Mostly the usual value, so that many requests are well-formed except for one thing. */
const mostly = <T>(usual: T, ...others: T[]) =>
  fc.oneof({ arbitrary: fc.constant(usual), weight: 5 }, { arbitrary: fc.constantFrom(...others), weight: 2 })

const HOSTS = [
  'good.example',
  'inside.example',
  'half.example',
  'nobody.example',
  '10.0.0.7',
  '[::1]',
  '0x7f.1',
  PUBLIC,
]
const host = mostly('good.example', ...HOSTS)
const port = mostly('', ':80', ':443', ':22', ':0', ':99999', ':080', ':')
const glue = mostly('', '@', '#@', '?@', '\\@', '%00', '%2f', '\t', ' ', '/', '\u0000', ':x@', ';')
const authority = fc
  .tuple(host, port, glue, host, port)
  .map(([first, firstPort, between, second, secondPort]) =>
    between === '' ? `${first}${firstPort}` : `${first}${firstPort}${between}${second}${secondPort}`,
  )
const target = fc.oneof(
  authority,
  authority.map((where) => `http://${where}/`),
  authority.map((where) => `https://${where}/`),
  fc.string({ maxLength: 50 }),
)
const header = fc.oneof(
  host.map((name) => `Host: ${name}`),
  fc.constantFrom(
    ...['Content-Length: 5', 'Content-Length: -1', 'Content-Length: 5, 6', 'Transfer-Encoding: chunked'],
    ...['Transfer-Encoding: xchunked', 'Connection: upgrade', 'Upgrade: websocket', 'Expect: 100-continue', ' folded'],
    ...['Connection: host, content-length', 'Proxy-Connection: keep-alive', 'X: \u0001', 'Te: trailers', ': empty'],
  ),
  fc.string({ maxLength: 40 }),
)
const request = fc
  .record({
    method: fc.constantFrom('GET', 'GET', 'POST', 'CONNECT', 'CONNECT', 'OPTIONS', 'connect', 'PRI', ''),
    target,
    version: mostly('HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', ''),
    headers: fc.array(header, { maxLength: 2 }),
    end: mostly('\r\n', '\n', '\r'),
    body: fc.oneof(fc.constantFrom('', 'hello', '5\r\nhello\r\n0\r\n\r\n', 'ffffffffff\r\n'), fc.string()),
  })
  .map((parts) =>
    [`${parts.method} ${parts.target} ${parts.version}`, ...parts.headers, '', parts.body].join(parts.end),
  )
  .map((all) => Buffer.from(all, 'latin1'))

const bytes = fc.uint8Array({ maxLength: 300 })
const sent = fc.array(fc.oneof({ arbitrary: request, weight: 4 }, bytes), { minLength: 1, maxLength: 3 })
const answered = fc.oneof(
  bytes,
  fc
    .tuple(
      fc.constantFrom('200 OK', '101 Switching Protocols', '99 Low', '999 High', '302 Found', ''),
      fc.array(header),
    )
    .map(([status, headers]) => Buffer.from([`HTTP/1.1 ${status}`, ...headers, '', 'body'].join('\r\n'), 'latin1')),
)

test('hostile bytes reach no private address, crash nothing and leave no connection open', async () => {
  const property = fc.asyncProperty(sent, answered, async (pieces, answer) => {
    answerBytes = answer
    await send(pieces)
    for (const place of dialled) expect([`${PUBLIC}:80`, `${PUBLIC}:443`]).toContain(place)
    expect(escaped).toEqual([])
  })
  await fc.assert(property, { numRuns: process.env.ASSAY_TEST_LONG ? 5_000 : 1_000 })

  expect(dialled.size).toBeGreaterThan(0)
  expect(JSON.stringify(egress.summary()).length).toBeLessThan(100_000)
  answerBytes = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello')
  const answer = await send([Buffer.from('GET http://good.example/ HTTP/1.1\r\nConnection: close\r\n\r\n')])
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*hello$/)
}, 300_000)
