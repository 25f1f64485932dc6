import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { insertComparison, releasing } from '../../test/support/releases.ts'
import { putBatchTaskFile, readBatchTaskFile } from '../batches/schema.ts'
import { listPublicTasks, readPublicTaskArchive } from '../results/schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const A = 'acme/small|mini|low'

type Lab = Awaited<ReturnType<typeof releasing>>

async function digestsOf(lab: Lab): Promise<Record<string, string>> {
  const { body } = await app.call(listPublicTasks, { params: lab.place, key: null })
  return Object.fromEntries(body.tasks.map(({ taskId, digest }: Record<string, string>) => [taskId, digest]))
}

/** Answers the digest that it has now, approved. */
async function changeInstruction(lab: Lab, taskId: string, content: string): Promise<string> {
  const at = lab.at(lab.runId, { taskId, path: 'instruction.md' })
  const etag = (await app.call(readBatchTaskFile, at)).headers.get('etag') ?? ''
  const put = await app.call(putBatchTaskFile, { ...at, body: { content }, headers: { 'if-match': etag } })
  await lab.work()
  const { digest } = put.body
  expect((await lab.decide(lab.runId, taskId, { digest })).status).toBe(200)
  return digest
}

test('files that were changed are public as the newest release that published them has them', async () => {
  const lab = await releasing(app)
  await lab.ran({ id: A, cells: 'pppppp' })
  await lab.publishAll({ publishTasks: true })
  const archive = async () => {
    const { headers } = await app.call(readPublicTaskArchive, { params: { ...lab.place, taskId: 'one' }, key: null })
    return headers.get('content-length')
  }
  const [before, bytes] = [await digestsOf(lab), await archive()]
  expect(before.one).toBe(lab.digests[0])

  const changed = await changeInstruction(lab, 'one', `${'Say it better, and in other words. '.repeat(100)}\n`)
  const where = { ...lab.where, digests: lab.digests.with(0, changed) }
  await insertComparison(app.database.pool, where, [{ id: A, cells: 'pppppp' }])
  expect((await lab.publishAll()).status).toBe(201)
  expect(await digestsOf(lab)).toEqual(before)
  expect((await lab.publishAll({ publishTasks: true })).status).toBe(200)
  expect(await digestsOf(lab)).toEqual({ ...before, one: changed })
  expect(await archive()).not.toBe(bytes)
})

test('two tasks that have changed places are public as they are now', async () => {
  const lab = await releasing(app)
  await lab.ran({ id: A, cells: 'pppppp' })
  await lab.publishAll({ publishTasks: true })
  const before = await digestsOf(lab)
  await changeInstruction(lab, 'one', 'Say two.\n')
  await changeInstruction(lab, 'two', 'Say one.\n')
  expect((await lab.publishAll({ publishTasks: true })).status).toBe(200)
  expect(await digestsOf(lab)).toEqual({ ...before, one: before.two, two: before.one })
})
