import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { openSandboxPort } from './sandbox-port.ts'

type Listening = AsyncDisposable & { server: Server; port: number }

async function listening(onConnection: (socket: Socket) => void): Promise<Listening> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port.')
  const dispose = async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { server, port: address.port, [Symbol.asyncDispose]: dispose }
}

/** A gateway that admits everybody, and then does with the tunnel what the test says. */
const tunnelling = (serve: (socket: Socket) => void) =>
  listening((socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      serve(socket)
    })
  })

const portTo = ({ port }: { port: number }) =>
  openSandboxPort({ gatewayUrl: `http://127.0.0.1:${port}`, tunnelSecret: 'secret' })

const dialled = ({ port }: { port: number }) => connect({ host: '127.0.0.1', port, allowHalfOpen: true })

/** No more comes. Its own half a socket may close when it likes. */
const ended = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    for (const event of ['end', 'close', 'error']) socket.once(event, () => resolve())
  })

test('answers a client that has closed its half of the connection', async () => {
  await using gateway = await tunnelling((socket) => void text(socket).then((all) => socket.end(`heard ${all}`)))
  await using sandbox = await listening(portTo(gateway).onConnection)
  const client = dialled(sandbox)

  client.end('hello')

  expect(await text(client)).toBe('heard hello')
})

test('the secret goes to the gateway and not a byte of it to the sandbox', async () => {
  const heard = Promise.withResolvers<string>()
  await using gateway = await listening((socket) => {
    socket.once('data', (chunk) => {
      heard.resolve(String(chunk))
      socket.end('HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n')
    })
  })
  await using sandbox = await listening(portTo(gateway).onConnection)

  const said = await text(dialled(sandbox))

  expect(await heard.promise).toMatch(/^CONNECT gateway:80 HTTP\/1\.1\r\nproxy-authorization: Bearer secret\r\n/i)
  expect(said).toMatch(/^HTTP\/1\.1 503 /)
  expect(said).not.toContain('secret')
})

test('reports a gateway that is down as an error message', async () => {
  const gateway = await listening(() => {})
  await gateway[Symbol.asyncDispose]()
  await using sandbox = await listening(portTo(gateway).onConnection)
  expect(await text(dialled(sandbox))).toMatch(/^HTTP\/1\.1 503 /)
})

test('backpressure: a sandbox that does not read delays the gateway', async () => {
  let isHeld = false
  await using gateway = await tunnelling((socket) => {
    const more = () => {
      let writes = 0
      while (socket.write(Buffer.alloc(65_536))) if (++writes > 10_000) return
      isHeld = true
    }
    more()
  })
  await using sandbox = await listening(portTo(gateway).onConnection)
  const client = dialled(sandbox)
  client.pause()
  await expect.poll(() => isHeld).toBe(true)
  client.destroy()
})

test.each(['gateway', 'sandbox'] as const)('when the %s breaks off, so does the other side', async (side) => {
  const tunnel = Promise.withResolvers<Socket>()
  await using gateway = await tunnelling((socket) => tunnel.resolve(socket))
  await using sandbox = await listening(portTo(gateway).onConnection)
  const client = dialled(sandbox)
  client.on('error', () => {})
  const [one, other] = side === 'gateway' ? [await tunnel.promise, client] : [client, await tunnel.promise]
  other.resume()

  one.resetAndDestroy()

  await ended(other)
  expect(other.readable).toBe(false)
})

test('a closed port ends open connections and rejects new ones', async () => {
  const tunnel = Promise.withResolvers<Socket>()
  await using gateway = await tunnelling((socket) => tunnel.resolve(socket))
  const port = portTo(gateway)
  await using sandbox = await listening(port.onConnection)
  const first = dialled(sandbox).on('error', () => {})
  const open = await tunnel.promise
  open.resume()

  port.close()
  await Promise.all([ended(open), text(first).catch(() => '')])

  const later = dialled(sandbox).on('error', () => {})
  expect(await text(later).catch(() => '')).toBe('')
})
