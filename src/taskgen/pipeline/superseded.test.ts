import { afterAll, beforeAll, expect, test } from 'vitest'
import { type GenerationApp, openGenerationLab, startGenerationApp } from '../../../test/support/generating.ts'
import { decideTask, decideTasks } from '../../batches/schema.ts'

let app: GenerationApp & AsyncDisposable
beforeAll(async () => {
  app = await startGenerationApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const EASY = { easy: 1, medium: 0, hard: 0 }

test('a newer task of a pull request supersedes the older one, which links to it', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 2, medium: 0, hard: 0 } })
  const first = await lab.made({ easy: 2 })
  const again = await lab.made({ easy: 1 }, { again: true })
  const [newer] = again.tasks
  const numbered = (tasks: { pullRequest: { number: number } }[], wanted: number) =>
    tasks.find(({ pullRequest }) => pullRequest.number === wanted)
  const before = await lab.tasks(first.runId)
  expect(numbered(before, newer.pullRequest.number)).toMatchObject({
    state: 'rejected',
    rejection: {
      reason: 'superseded',
      detail: `${again.runId}/${newer.taskId} was created later from the same pull request.`,
    },
  })
  expect(numbered(before, newer.pullRequest.number === 1 ? 2 : 1)).toMatchObject({ state: 'ready' })
  expect(await lab.read(first.runId)).toMatchObject({
    counts: { ready: 1, rejected: 1 },
    rejections: { superseded: 1 },
  })
  expect(newer).toMatchObject({ state: 'ready', concerns: [] })
  const [old] = before.filter(({ state }: { state: string }) => state === 'rejected')
  const body = { decision: 'approved', digest: old.digest } as const
  const refused = await app.call(decideTask, { ...lab.at(first.runId, { taskId: old.taskId }), body })
  expect(refused).toMatchObject({ status: 409, body: { code: 'task_not_ready' } })
})

test('an approved task is not superseded, and the newer task has a warning', async () => {
  const lab = await openGenerationLab(app, { changes: EASY })
  const { runId, tasks } = await lab.made({ easy: 1 })
  const [{ taskId, digest }] = tasks
  const approved = { decision: 'approved', digest } as const
  await app.call(decideTask, { ...lab.at(runId, { taskId }), body: approved })
  const again = await lab.made({ easy: 1 }, { again: true })
  expect(await lab.tasks(runId)).toMatchObject([{ state: 'ready', decision: 'approved' }])
  const [newer] = again.tasks
  expect(newer).toMatchObject({
    state: 'ready',
    concerns: [`${runId}/${taskId} was created from the same pull request and is approved.`],
  })
  const decisions = [{ taskId: newer.taskId, decision: 'approved' as const, digest: newer.digest }]
  const bulk = await app.call(decideTasks, { ...lab.at(again.runId), body: { decisions } })
  expect(bulk).toMatchObject({ status: 409, body: { code: 'task_not_green' } })
})

test('of two concurrent tasks of a pull request one remains', async () => {
  const lab = await openGenerationLab(app, { changes: EASY })
  const runs = [await lab.create({ easy: 1 }, { again: true }), await lab.create({ easy: 1 }, { again: true })]
  await Promise.all([lab.work(), lab.work()])
  const tasks = await Promise.all(runs.map(({ body }) => lab.tasks(body.runId)))
  const states = tasks.flat().map(({ state }: { state: string }) => state)
  expect(states.toSorted()).toEqual(['ready', 'rejected'])
})
