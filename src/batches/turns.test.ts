import { expect, test } from 'vitest'
import { z } from 'zod'
import { testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { drain } from '../../test/support/jobs/drain.ts'
import { generationJobs, serviceJobs } from '../app.ts'
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

test('servers of one workspace that never answer do not delay the batches of another', async () => {
  await using app = await testApp()
  const type = defineJobType({ type: 'test.wait', payload: z.object({ forEver: z.boolean() }) })
  const done = Promise.withResolvers<void>()
  const handler = defineJobHandler(type, {
    run: async ({ payload, signal, finish }) => {
      if (payload.forEver) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      else await finish(async () => done.resolve())
    },
  })
  await limitGeneration(app.database.db, 2)
  const send = (workspace: string, forEver: boolean) =>
    enqueue(app.database.db, type, { forEver }, { fairGroup: `${workspace}/`, limitKeys: [toGenerationKey(workspace)] })
  for (let index = 0; index < 5; index += 1) await send('slow', true)
  await send('other', false)
  const worker = startWorker({ database: app.database, handlers: [handler], slots: 3, log: app.tools.log })
  await done.promise
  await worker.stop(0)
})
