import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { startRelayProcess } from '../../test/support/gateway/relay.ts'
import { seeded } from '../../test/support/seeded.ts'
import { buildFrame, buildOffset, createFrameReader, FRAME, WINDOW_BYTES } from '../sandboxes/resumable-protocol.ts'
import { openResumableConnections, type ResumableConnections } from './resumable-connections.ts'

const OPTIONS = { resumeMs: 60_000, connectionsMax: 256 }
const OWNER = 'grant'

const dial = (port: number): Socket => connect({ host: '127.0.0.1', port, allowHalfOpen: true }).on('error', () => {})

const echo = (connection: Duplex): boolean => {
  connection.pipe(connection)
  return true
}

type Random = () => number

const tick = () => new Promise((resolve) => setImmediate(resolve))

/** Carries a pipe as a worker does, in pieces of any size and with delays, and breaks it at any byte. */
function carryBriefly(socket: Socket, gateway: ResumableConnections, random: Random): void {
  const [near, far] = duplexPair()
  let left = random() < 0.1 ? 0 : Math.floor(random() ** 3 * 600_000)
  const close = () => {
    socket.destroy()
    near.destroy()
  }
  const carry = async (from: Duplex, to: Duplex) => {
    for await (const chunk of splitRandomly(from, random)) {
      to.write(chunk.subarray(0, left))
      left -= chunk.length
      if (left <= 0) break
    }
    close()
  }
  for (const stream of [socket, near, far]) stream.on('error', () => {})
  socket.once('close', close)
  gateway.addPipe(OWNER, far, echo)
  carry(socket, near).catch(close)
  carry(near, socket).catch(close)
}

async function* splitRandomly(stream: Duplex, random: Random): AsyncGenerator<Buffer> {
  for await (const chunk of stream)
    for (let at = 0; at < chunk.length; ) {
      const piece: Buffer = chunk.subarray(at, at + 1 + Math.floor(random() ** 2 * 70_000))
      at += piece.length
      if (random() < 0.2) await tick()
      yield piece
    }
}

test.each([1, 2, 3, 4])(
  'bytes arrive once and in order, whatever happens to pipes and workers, also with another gateway (seed %i)',
  async (seed) => {
    const random = seeded(seed)
    const [gateway, other] = [openResumableConnections(OPTIONS), openResumableConnections(OPTIONS)]
    await using relay = await startRelayProcess()
    let pipes = 0
    let worker: Promise<AsyncDisposable>
    const replaceWorker = async (former: Promise<AsyncDisposable>) => {
      await (await former)[Symbol.asyncDispose]()
      return relay.listen(serve)
    }
    const serve = (socket: Socket) => {
      pipes += 1
      if (random() < 0.05) worker = replaceWorker(worker)
      else carryBriefly(socket, random() < 0.5 ? gateway : other, random)
    }
    worker = relay.listen(serve)

    const exchanges = [0, 1, 40_000, 300_000, 800_000].map(async (size) => {
      const sent = randomBytes(size)
      const client = dial(relay.port)
      client.end(sent)
      return (await buffer(client)).equals(sent)
    })

    expect(await Promise.all(exchanges)).toEqual([true, true, true, true, true])
    expect(pipes).toBeGreaterThan(exchanges.length)
    await (await worker)[Symbol.asyncDispose]()
    gateway.closeAll()
    other.closeAll()
  },
)

/** A relay that the test plays. */
function openPipe(gateway: ResumableConnections, owner = OWNER, serve: (connection: Duplex) => boolean = echo) {
  const [near, far] = duplexPair()
  const frames: [number, string][] = []
  const read = createFrameReader((type, payload) => frames.push([type, payload.toString('hex')]) > 0)
  near.on('data', read).on('error', () => {})
  gateway.addPipe(owner, far, serve)
  return { near, far, frames, types: () => frames.map(([type]) => type) }
}

const ID = Buffer.alloc(16, 7)
const hello = (isNew: boolean, received = 0, id = ID) =>
  buildFrame(FRAME.hello, Buffer.concat([id, Buffer.from([Number(isNew)]), buildOffset(received)]))

const offset = (count: number): string => buildOffset(count).toString('hex')

test('a connection can be resumed by its owner only', async () => {
  const gateway = openResumableConnections(OPTIONS)
  const first = openPipe(gateway)
  first.near.write(hello(true))
  await expect.poll(() => first.types()).toEqual([FRAME.welcome, FRAME.ack])

  const stranger = openPipe(gateway, 'another grant')
  stranger.near.write(hello(false))
  await expect.poll(() => stranger.types()).toEqual([FRAME.unknown])

  expect(first.far.destroyed).toBe(false)
  gateway.closeAll()
})

test('a second pipe replaces the first and receives what the first did not deliver', async () => {
  const gateway = openResumableConnections(OPTIONS)
  const first = openPipe(gateway)
  first.near.write(Buffer.concat([hello(true), buildFrame(FRAME.data, Buffer.from('hello'))]))
  await expect.poll(() => first.types()).toContain(FRAME.data)

  const second = openPipe(gateway)
  second.near.write(hello(false, 2))

  await expect
    .poll(() => second.frames)
    .toEqual([
      [FRAME.welcome, offset(5)],
      [FRAME.ack, offset(5)],
      [FRAME.data, Buffer.from('llo').toString('hex')],
    ])
  expect(first.far.destroyed).toBe(true)
  gateway.closeAll()
})

test('a connection without a pipe is destroyed in the end, and at once when it is forgotten', async () => {
  for (const isForgotten of [false, true]) {
    const gateway = openResumableConnections({ ...OPTIONS, resumeMs: isForgotten ? 60_000 : 20 })
    const served = Promise.withResolvers<Duplex>()
    const pipe = openPipe(gateway, OWNER, (connection) => {
      served.resolve(connection)
      return true
    })
    pipe.near.write(hello(true))
    const connection = await served.promise
    const closed = once(connection, 'close')
    pipe.near.destroy()
    await expect.poll(() => pipe.far.destroyed).toBe(true)
    if (isForgotten) gateway.forget(OWNER)
    await closed
    const later = openPipe(gateway)
    later.near.write(hello(false))
    await expect.poll(() => later.types()).toEqual([FRAME.unknown])
    gateway.closeAll()
  }
})

test('a relay that resumes learns that the gateway has closed the connection, after its last bytes', async () => {
  const gateway = openResumableConnections(OPTIONS)
  const served = Promise.withResolvers<Duplex>()
  const first = openPipe(gateway, OWNER, (connection) => {
    served.resolve(connection)
    return true
  })
  first.near.write(hello(true))
  const connection = await served.promise
  await expect.poll(() => first.types()).toContain(FRAME.welcome)
  first.near.destroy()
  await expect.poll(() => first.far.destroyed).toBe(true)
  await new Promise((resolve) => connection.write('last', resolve))
  connection.destroy()

  const second = openPipe(gateway)
  second.near.write(hello(false))

  await expect.poll(() => second.types()).toEqual([FRAME.welcome, FRAME.ack, FRAME.data, FRAME.reset])
  gateway.closeAll()
})

const flood = (count: number) =>
  Buffer.concat(Array.from({ length: count }, () => buildFrame(FRAME.data, Buffer.alloc(60_000))))

test.each<[string, Buffer]>([
  ['no greeting', buildFrame(FRAME.data, Buffer.from('x'))],
  ['a short greeting', buildFrame(FRAME.hello, ID)],
  ['bytes of a new connection that were never sent', hello(true, 1)],
  ['a second greeting', Buffer.concat([hello(true), hello(false)])],
  ['an unknown type', Buffer.concat([hello(true), buildFrame(99)])],
  ['an endless frame', Buffer.concat([hello(true), Buffer.from([FRAME.data, 0xff, 0xff, 0xff, 0xff])])],
  ['an empty frame', Buffer.concat([hello(true), buildFrame(FRAME.data)])],
  [
    'an acknowledgement of bytes that were never sent',
    Buffer.concat([hello(true), buildFrame(FRAME.ack, buildOffset(1))]),
  ],
  ['a short acknowledgement', Buffer.concat([hello(true), buildFrame(FRAME.ack, Buffer.alloc(1))])],
  ['two ends', Buffer.concat([hello(true), buildFrame(FRAME.end), buildFrame(FRAME.end)])],
  [
    'bytes after the end',
    Buffer.concat([hello(true), buildFrame(FRAME.end), buildFrame(FRAME.data, Buffer.from('x'))]),
  ],
  ['more bytes than the window', Buffer.concat([hello(true), flood(WINDOW_BYTES / 30_000)])],
])('%s closes the pipe and its connection', async (_, bytes) => {
  const gateway = openResumableConnections(OPTIONS)
  const connections: Duplex[] = []
  const pipe = openPipe(gateway, OWNER, (connection) => connections.push(connection) > 0)

  pipe.near.write(bytes)

  await expect.poll(() => pipe.far.destroyed).toBe(true)
  expect(connections.every(({ destroyed }) => destroyed)).toBe(true)
  gateway.closeAll()
})

test('random bytes after a greeting never throw', async () => {
  const gateway = openResumableConnections(OPTIONS)
  const random = seeded(9)
  for (let round = 0; round < 300; round += 1) {
    const pipe = openPipe(gateway)
    pipe.near.write(hello(true, 0, randomBytes(16)))
    for (let count = 0; count < 5; count += 1) {
      const payload = randomBytes(Math.floor(random() * 40))
      pipe.near.write(random() < 0.7 ? buildFrame(Math.floor(random() * 10), payload) : payload)
    }
    await tick()
    pipe.near.destroy()
  }
  gateway.closeAll()
})

test('the number of connections and pipes of an owner is limited', async () => {
  const gateway = openResumableConnections({ ...OPTIONS, connectionsMax: 2 })
  const pipes = [1, 2, 3].map((count) => {
    const pipe = openPipe(gateway)
    pipe.near.write(hello(true, 0, Buffer.alloc(16, count)))
    return pipe
  })
  await expect
    .poll(() => pipes.map(({ frames }) => frames[0]?.[0]))
    .toEqual([FRAME.welcome, FRAME.welcome, FRAME.unavailable])
  openPipe(gateway)
  expect(gateway.mayAddPipe(OWNER)).toBe(false)
  expect(gateway.mayAddPipe('another grant')).toBe(true)
  gateway.closeAll()
})

test('a pipe that broke before it was accepted does not count', () => {
  const gateway = openResumableConnections({ ...OPTIONS, connectionsMax: 1 })
  for (const _ of [1, 2]) {
    const [broken] = duplexPair()
    gateway.addPipe(OWNER, broken.destroy(), echo)
  }
  expect(gateway.mayAddPipe(OWNER)).toBe(true)
})

test('a program with many connections that nothing reads does not use up the memory of its relay', async () => {
  await using relay = await startRelayProcess()
  let pipes = 0
  await using _worker = await relay.listen((socket) => {
    pipes += 1
    socket.once('data', () => {
      socket.write(buildFrame(FRAME.welcome, buildOffset(0)))
      for (let count = 0; count < 3; count += 1) socket.write(buildFrame(FRAME.data, Buffer.alloc(60_000)))
      socket.pause()
    })
  })
  const clients = Array.from({ length: 600 }, () => dial(relay.port).pause())
  for (const client of clients) client.write(Buffer.alloc(1_000_000))
  await expect.poll(() => pipes, { timeout: 30_000 }).toBeGreaterThanOrEqual(128)
  const last = dial(relay.port)
  expect(await text(last)).toBe('')
  expect(pipes).toBe(128)
  expect(await relay.memoryMb()).toBeLessThan(160)
  last.destroy()
  for (const client of clients) client.destroy()
})

test('a plain port of the relay carries connections as they are', async () => {
  await using relay = await startRelayProcess({ kind: '' })
  await using _worker = await relay.listen((socket) => {
    socket.allowHalfOpen = true
    void text(socket).then((all) => socket.end(`heard ${all}`))
  })
  const client = dial(relay.port)
  client.end('hello')
  expect(await text(client)).toBe('heard hello')
})
