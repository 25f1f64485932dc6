import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { createOpenStream } from './open-stream.ts'
import { createOutbound } from './outbound.ts'
import { isUsablePrivateKey } from './tls-limits.ts'

const signal = new AbortController().signal

/** Starts a server that sends this text to each connection after its first bytes, and then the unit again and again. */
async function startFlood(start: string, unit: string) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    const flood = Buffer.from(unit.repeat(1000))
    const send = (): void => {
      while (!socket.destroyed) if (!socket.write(flood)) return void socket.once('drain', send)
    }
    socket.once('data', () => {
      socket.write(start)
      send()
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((closed) => server.close(closed))
    },
  }
}

const CHUNKED = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n'

test.each([
  ['responses before the real one', '', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['chunks of one byte', CHUNKED, '1\r\na\r\n'],
])('a server that sends endless %s is disconnected', async (_, start, unit) => {
  await using server = await startFlood(start, unit)
  const init = { trust: 'operator', method: 'GET', headers: {}, body: null, signal } as const

  const streamed = createOpenStream()(server.url, init).then(({ body }) => text(body))
  await expect(streamed).rejects.toThrow(/TOO_MANY_FRAGMENTS|too many parts/)
  const fetched = createOutbound().fetch(server.url, { trust: 'operator', bytesMax: 1e9 })
  await expect(fetched.then((answer) => answer.text())).rejects.toThrow(/TOO_MANY_FRAGMENTS/)
})

/** Numbers of cipher suites whose key exchange is finite-field Diffie-Hellman in a group that the server chooses. */
const DHE_SUITES = [0x33, 0x39, 0x67, 0x6b, 0x9e, 0x9f, 0xc09e, 0xc09f, 0xc0a2, 0xc0a3, 0xccaa]
const ECDHE_SUITE = 0xc02f

/** Reads the numbers of the cipher suites from the first message of a TLS client. */
function readCipherSuites(hello: Buffer): number[] {
  const sessionAt = 5 + 4 + 2 + 32
  const suitesAt = sessionAt + 1 + hello.readUInt8(sessionAt)
  const count = hello.readUInt16BE(suitesAt) / 2
  return Array.from({ length: count }, (_, index) => hello.readUInt16BE(suitesAt + 2 + 2 * index))
}

test('a connection offers no key exchange whose size the server chooses', async () => {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const connected = once(server, 'connection')
  const { port } = server.address() as AddressInfo
  const request = createOutbound().fetch(`https://127.0.0.1:${port}/`, { trust: 'operator' })
  const refused = request.catch(() => 'refused')
  const [socket] = (await connected) as [Socket]
  const [hello] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  server.close()

  const suites = readCipherSuites(hello)
  expect(suites).toContain(ECDHE_SUITE)
  expect(suites.filter((suite) => DHE_SUITES.includes(suite))).toEqual([])
  expect(await refused).toBe('refused')
})

/** Encodes an RSA key whose numbers have these sizes in bytes and do not fit together. OpenSSL accepts it all the same. */
function forgeRsaKey(sizes: { modulus: number; exponent: number; prime: number }): string {
  const { modulus, exponent, prime } = sizes
  const numbers = [modulus, 3, exponent, prime, prime, prime, prime, prime].map((size) => Buffer.alloc(size, 0x5b))
  const fields = [Buffer.from([0]), ...numbers].map((number) => encodeDer(INTEGER, number))
  const der = encodeDer(SEQUENCE, Buffer.concat(fields))
  return `-----BEGIN RSA PRIVATE KEY-----\n${der.toString('base64')}\n-----END RSA PRIVATE KEY-----\n`
}

const INTEGER = 2
const SEQUENCE = 0x30

const encodeDer = (tag: number, content: Buffer): Buffer =>
  Buffer.concat([Buffer.from([tag, 0x82, content.length >> 8, content.length & 0xff]), content])

const pkcs8 = { type: 'pkcs8', format: 'pem' } as const

test('accepts private keys of usual sizes', () => {
  const [rsa, ec] = [generateKeyPairSync('rsa', { modulusLength: 2048 }), generateKeyPairSync('ed25519')]
  expect(isUsablePrivateKey(rsa.privateKey.export(pkcs8).toString())).toBe(true)
  expect(isUsablePrivateKey(ec.privateKey.export(pkcs8).toString())).toBe(true)
  expect(isUsablePrivateKey(forgeRsaKey({ modulus: 512, exponent: 512, prime: 256 }))).toBe(true)
})

test.each([
  ['a modulus of more than 4096 bits', { modulus: 513, exponent: 513, prime: 257 }],
  ['an exponent larger than the modulus', { modulus: 256, exponent: 257, prime: 128 }],
  ['primes larger than half of the modulus', { modulus: 256, exponent: 256, prime: 129 }],
  ['numbers with which signing takes minutes', { modulus: 4096, exponent: 4096, prime: 2048 }],
])('refuses a private key with %s', (_, sizes) => {
  expect(isUsablePrivateKey(forgeRsaKey(sizes))).toBe(false)
})

test('refuses text that is no private key', () => {
  expect(isUsablePrivateKey('-----BEGIN RSA PRIVATE KEY-----')).toBe(false)
})
