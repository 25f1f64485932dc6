import { expect, test } from 'vitest'
import { z } from 'zod'
import { testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { drain } from '../../test/support/jobs/drain.ts'
import { generationJobs, serviceJobs } from '../app.ts'
import type { Db } from '../platform/db/db.ts'
import { defineJobHandler, defineJobType, enqueue } from '../platform/jobs/jobs.ts'
import { startWorker } from '../platform/jobs/worker.ts'
import { connectRepository } from '../repos/schema.ts'
import { limitGeneration, toGenerationKey } from '../taskgen/pipeline/enqueue.ts'
import { importBatch } from './schema.ts'

test('an import does not wait behind all imports of another workspace', async () => {
  await using app = await testApp()
  const other = await app.otherWorkspace()
  const send = async (org: string, key: string): Promise<string> => {
    const params = { org, owner: 'lab', name: 'demo' }
    const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
    await app.call(connectRepository, { params, key, body: { source } })
    return (await app.call(importBatch, { params, key, upload: buildArchive({ hello: smallTask() }) })).body.runId
  }
  const many = []
  for (let index = 0; index < 4; index += 1) many.push(await send('local', app.adminKey))
  const one = await send(other.login, other.key)

  const order: string[] = []
  const imports = serviceJobs(app.tools)
    .filter(({ type }) => type === 'batch.import')
    .map((handler) => ({
      ...handler,
      run: (job: Parameters<typeof handler.run>[0]) => {
        order.push(`batch-${(job.payload as { batch: string }).batch}`)
        return handler.run(job)
      },
    }))
  await drain(app.database, imports)
  expect(order.indexOf(one)).toBeLessThan(many.length - 1)
})

test('jobs that wait for code hosts and models have workers of their own', async () => {
  await using app = await testApp()
  const waiting = ['batch.discover', 'batch.stage']
  expect(serviceJobs(app.tools).filter(({ type }) => waiting.includes(type))).toEqual([])
  expect(generationJobs(app.tools).map(({ type }) => type)).toEqual(expect.arrayContaining(waiting))
})

/** A job that ends at once, or never. */
function createWaitingJobs() {
  const type = defineJobType({ type: 'test.wait', payload: z.object({ forEver: z.boolean() }) })
  const done = Promise.withResolvers<void>()
  const handler = defineJobHandler(type, {
    run: async ({ payload, signal, finish }) => {
      if (payload.forEver) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      else await finish(async () => done.resolve())
    },
  })
  const send = (db: Db, workspace: string, forEver: boolean) =>
    enqueue(db, type, { forEver }, { fairGroup: `${workspace}/`, limitKeys: [toGenerationKey(workspace)] })
  return { handler, send, done: done.promise }
}

test('servers of one workspace that never answer do not delay the batches of another', async () => {
  await using app = await testApp()
  const { handler, send, done } = createWaitingJobs()
  await limitGeneration(app.database.db, 2)
  for (let index = 0; index < 5; index += 1) await send(app.database.db, 'slow', true)
  await send(app.database.db, 'other', false)
  const worker = startWorker({ database: app.database, handlers: [handler], slots: 3, log: app.tools.log })
  await done
  await worker.stop(0)
})

test('workspaces that take all slots together do not delay the first job of another', async () => {
  await using app = await testApp()
  const { handler, send, done } = createWaitingJobs()
  await limitGeneration(app.database.db, 2)
  const options = { database: app.database, handlers: [handler], slots: 4, firstJobSlots: 2, log: app.tools.log }
  const worker = startWorker(options)
  for (const workspace of ['first', 'second', 'first', 'second']) await send(app.database.db, workspace, true)
  await expect.poll(() => worker.counts().running).toBe(4)
  for (let index = 0; index < 3; index += 1) await send(app.database.db, 'third', true)
  await expect.poll(() => worker.counts().running).toBe(5)
  await send(app.database.db, 'other', false)
  await done
  await expect.poll(() => worker.counts().running).toBe(5)
  await worker.stop(0)
})
