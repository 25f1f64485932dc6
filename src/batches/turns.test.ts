import { expect, test } from 'vitest'
import { testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { drain } from '../../test/support/jobs/drain.ts'
import { serviceJobs } from '../app.ts'
import { connectRepository } from '../repos/schema.ts'
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
