import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { listen } from '../listen.ts'
import { createUnreadAnswers } from './admit.ts'

const ANSWER = Buffer.alloc(20_000_000)

/** Starts a server whose path names the share of a request, and which answers with many bytes. */
async function startServer(waitMs: number) {
  const unread = createUnreadAnswers({ bytesMax: 1.5 * ANSWER.length, waitMs })
  const started: string[] = []
  const handle: RequestListener = async ({ url = '' }, outgoing) => {
    const [, share = '', id = ''] = url.split('/')
    await unread.waitUntilRead(share)
    started.push(id)
    unread.add(share, outgoing, ANSWER.length)
    outgoing.end(ANSWER)
  }
  return { started, ...(await listen(handle, '127.0.0.1', 0)) }
}

/** Asks for an answer and does not read it. */
async function askWithoutReading(url: string, path: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.pause()
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
  return socket
}

test('requests of a share wait for slow readers of their own share only, until one has read', async () => {
  const { url, started, stop } = await startServer(60_000)
  const sockets = [await askWithoutReading(url, '/slow/1')]
  await expect.poll(() => started).toContain('1')
  sockets.push(await askWithoutReading(url, '/slow/2'))
  await expect.poll(() => started).toContain('2')
  sockets.push(await askWithoutReading(url, '/slow/3'))
  expect((await fetch(`${url}/other/4`).then((answer) => answer.arrayBuffer())).byteLength).toBe(ANSWER.length)
  expect(started).toEqual(['1', '2', '4'])

  sockets[0]?.resume()
  await expect.poll(() => started).toContain('3')
  for (const socket of sockets) socket.destroy()
  await stop(0)
})

test('the oldest unread answer is ended if no reader makes room', async () => {
  const { url, started, stop } = await startServer(50)
  const sockets: Socket[] = []
  for (const id of ['1', '2', '3', '4', '5']) {
    sockets.push(await askWithoutReading(url, `/slow/${id}`))
    await expect.poll(() => started).toContain(id)
  }
  for (const socket of sockets) socket.resume()
  await Promise.all(sockets.slice(0, 3).map((socket) => once(socket, 'close')))
  expect(sockets.at(-1)?.destroyed).toBe(false)
  for (const socket of sockets) socket.destroy()
  await stop(0)
})
