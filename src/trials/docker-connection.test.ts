import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasPart } from '../../test/support/parts.ts'
import { openTrialRunner, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

/** Forwards to a Docker engine, and can break the connection of a request. */
type FlakyRoute = { server: Server; socket: string; breakNext(request: string): void }

async function openFlakyRoute(folder: string, engine: string): Promise<FlakyRoute> {
  const socket = join(folder, `${randomUUID().slice(0, 8)}.sock`)
  let breaking: string | undefined
  const server = createServer((client) => {
    const upstream = connect(engine)
    client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy())
    upstream.on('error', () => client.destroy()).on('close', () => client.destroy())
    client.on('data', (bytes) => {
      if (breaking === undefined || !bytes.includes(breaking)) return
      breaking = undefined
      client.destroy()
    })
    client.pipe(upstream).pipe(client)
  })
  server.listen(socket)
  await once(server, 'listening')
  return {
    server,
    socket,
    breakNext(request) {
      breaking = request
    },
  }
}

describe.skipIf(!hasPart('docker'))('with an unreliable connection to the Docker engine', () => {
  let route: FlakyRoute
  let runner: Awaited<ReturnType<typeof openTrialRunner>>
  beforeAll(async () => {
    runner = await openTrialRunner('docker', {
      routeTo: async (engine, folder) => {
        route = await openFlakyRoute(folder, engine)
        return route.socket
      },
    })
  }, 600_000)
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]()
    route?.server.close()
  }, 60_000)

  test('a broken connection does not exclude the trial of a started agent', async () => {
    const task = writeTask(join(runner.folder, 'task'))
    expect(await runner.run(task, createCommandHarness('true'))).toMatchObject({ state: 'failed', reward: 0 })
    const breakWait = (phase: string) => {
      if (phase === 'agent') route.breakNext('/wait ')
    }
    const record = await runner.run(task, createCommandHarness('true'), 'workspace', { onPhase: breakWait })
    expect(record).toMatchObject({ state: 'failed', reward: 0, error: null })
    expect(record.steps[0]?.notes).toEqual([expect.stringContaining('Docker engine lost sandbox')])
  }, 120_000)
})
