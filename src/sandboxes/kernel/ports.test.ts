import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { listenForPort, listenPrograms, listenWith } from './ports.ts'

/** Any command may begin it; this one enters nothing. */
const HERE = ['/usr/bin/env']

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}

test.each(Object.entries(listenPrograms))(
  'receives the sockets that %s opened, each with its own connections',
  async (_, maker) => {
    const ports = [await freePort(), await freePort(), await freePort()]
    const wanted = ports.map((port) => ({
      port,
      onConnection: (socket: { end(text: string): void }) => socket.end(`${port}`),
    }))
    const made = await listenWith(maker, HERE, wanted)
    if ('error' in made) throw new Error(made.error)
    for (const port of [...ports, ...ports]) expect(await text(connect(port, '127.0.0.1'))).toBe(String(port))
    for (const server of made.servers) server.close()
  },
)

test.each(Object.entries(listenPrograms))(
  'reports that %s cannot listen, and leaves nothing open',
  async (_, maker) => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const address = taken.address()
    const other = await freePort()
    const wanted = [other, typeof address === 'object' && address ? address.port : 0]
    const made = await listenWith(
      maker,
      HERE,
      wanted.map((port) => ({ port, onConnection: () => {} })),
    )
    expect(made).toEqual({ error: expect.stringMatching(/in use|EADDRINUSE/) })
    await expect(once(connect(other, '127.0.0.1'), 'connect')).rejects.toThrow('ECONNREFUSED')
    taken.close()
  },
)

test('a later process takes over the socket of a port, and keeps it when the earlier one closes its own', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ports-'))
  const listen = (answer: string) =>
    listenForPort(folder, { port: 31_281, onConnection: (socket: Socket) => socket.end(answer) })
  const dial = () => text(connect(join(folder, '31281')))
  const former = await listen('former')
  expect(await dial()).toBe('former')

  const later = await listen('later')
  former.close()
  await once(former, 'close')

  expect(await dial()).toBe('later')
  expect(await readdir(folder)).toEqual(['31281'])
  later.close()
  await rm(folder, { recursive: true })
})
