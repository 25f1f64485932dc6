import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { testApp } from '../../test/support/app.ts'
import { deliveryJobs } from '../app.ts'
import { startWorker } from '../platform/jobs/worker.ts'
import { limitDeliveries } from './emit.ts'
import { createWebhook, testWebhook } from './schema.ts'

const SLOTS = 8
const WEBHOOKS = 10

const listenOn = (server: ReturnType<typeof createTcpServer>): Promise<string> =>
  new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      resolve(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
    }),
  )

test('receivers of one workspace that never answer do not delay the deliveries of another', async () => {
  await using app = await testApp({ ASSAY_WEBHOOKS_PRIVATE: '1' })
  const other = await app.otherWorkspace()
  const hanging = createTcpServer((socket) => socket.on('error', () => {}))
  const received = Promise.withResolvers<void>()
  const receiver = createServer((request, response) => {
    request.resume()
    response.end()
    received.resolve()
  })
  const [hangingUrl, url] = [await listenOn(hanging), await listenOn(receiver)]
  const create = async (org: string, key: string, to: string): Promise<string> =>
    (await app.call(createWebhook, { params: { org }, key, body: { url: to } })).body.id
  const send = (org: string, key: string, webhookId: string) =>
    app.call(testWebhook, { params: { org, webhookId }, key })

  for (let index = 0; index < WEBHOOKS; index += 1) {
    const id = await create('local', app.adminKey, hangingUrl)
    for (let times = 0; times < 2; times += 1) expect((await send('local', app.adminKey, id)).status).toBe(202)
  }
  const id = await create(other.login, other.key, url)
  expect((await send(other.login, other.key, id)).status).toBe(202)

  await limitDeliveries(app.database.db)
  const services = { ...app.tools, waits: { ...app.tools.waits, webhookMs: 600_000 } }
  const { database, log } = app.tools
  const worker = startWorker({ database, handlers: deliveryJobs(services), slots: SLOTS, log })
  onTestFinished(async () => {
    await worker.stop(0)
    hanging.close()
    receiver.close()
  })
  await received.promise
})
