import { EventEmitter, once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts'
import { createKey, listKeys, readWorkspace } from '../../workspaces/schema.ts'
import { lock, transact } from '../db/db.ts'
import { createFairShares, LONG_REQUESTS_MAX, OPEN_REQUESTS_MAX } from './admit.ts'
import type { Endpoint } from './endpoint.ts'

const CONNECTIONS = 6
const REQUESTS = 40

/** Holds the lock of a workspace's audit log, so that its writes wait in their transactions. */
async function holdAudit(database: TestDatabase, workspaceId: string) {
  const release = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const holding = transact(database.db, async (tx) => {
    await lock(tx, `audit ${workspaceId}`)
    locked.resolve()
    await release.promise
  })
  await locked.promise
  return async () => {
    release.resolve()
    await holding
  }
}

test('a workspace whose requests wait leaves database connections for other workspaces', async () => {
  await using database = await testDatabase({ max: CONNECTIONS })
  await using app = await testApp({}, database)
  const { key, login, id } = await app.otherWorkspace('busy')
  const release = await holdAudit(database, id)
  const sent = Array.from({ length: REQUESTS }, (_, index) =>
    app.call(createKey, { params: { org: login }, key, body: { name: `${index}`, permission: 'read' } }),
  )
  expect((await app.call(listKeys)).status).toBe(200)

  await release()
  expect(new Set((await Promise.all(sent)).map(({ status }) => status))).toEqual(new Set([201]))
})

test('only some of the long requests of a workspace work at once, and they delay no other workspace', async () => {
  const takeOpenSlot = createFairShares(CONNECTIONS)
  const endpoint = { progress: z.object({}) } as unknown as Endpoint
  const outgoing = new EventEmitter() as ServerResponse
  const release = Promise.withResolvers<void>()
  const working: string[] = []
  const send = async (address: string) => {
    const open = await takeOpenSlot(endpoint, outgoing, { caller: undefined, address })
    await open.runWork(async () => {
      working.push(address)
      await release.promise
    })
  }
  const sent = Array.from({ length: 10 }, () => send('busy'))
  sent.push(send('other'))
  await expect.poll(() => working).toContain('other')
  expect(working.filter((address) => address === 'busy')).toHaveLength(LONG_REQUESTS_MAX)

  release.resolve()
  await Promise.all(sent)
  expect(working).toHaveLength(11)
})

/** Sends a request whose body does not end. */
async function sendHalf(app: TestApp, org: string, key: string) {
  const socket = connect(Number(new URL(app.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write(
    `POST /api/orgs/${org}/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 2000\r\n\r\n{',
  )
  return socket
}

test('bodies that do not arrive delay only their own workspace, and only until one of them ends', async () => {
  await using app = await testApp()
  const { key, login } = await app.otherWorkspace('slow')
  const sockets = await Promise.all(Array.from({ length: OPEN_REQUESTS_MAX }, () => sendHalf(app, login, key)))
  const readSlow = () => app.call(readWorkspace, { params: { org: login }, key })
  const readOther = async () => {
    for (let index = 0; index < 5; index += 1) expect((await app.call(readWorkspace)).status).toBe(200)
    return 'the other workspace'
  }
  const answeredFirst = () => Promise.race([readSlow(), readOther()])
  await expect.poll(answeredFirst, { timeout: 30_000 }).toBe('the other workspace')

  const waiting = readSlow()
  for (const socket of sockets) socket.destroy()
  expect((await waiting).status).toBe(200)
})
