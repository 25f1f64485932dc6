import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { openImportLab } from '../../test/support/batches.ts'
import { findRepository } from '../repos/repos.ts'
import { listEvents } from '../workspaces/audit.ts'
import { decideTasks } from './schema.ts'
import { listApprovedTasks } from './tasks.ts'

let app: TestApp
let lab: Awaited<ReturnType<typeof openImportLab>>
beforeAll(async () => {
  app = await testApp()
  lab = await openImportLab(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

const OTHER = `sha256:${'0'.repeat(64)}`

const approved = async () => {
  const { rows } = await app.database.pool.query(`select id from workspaces where login = 'local'`)
  const repository = await findRepository(app.database.db, { workspaceId: rows[0].id, ...lab.place })
  return repository ? listApprovedTasks(app.database.db, repository.key) : []
}

test('approves, declines and approves a ready task by digest', async () => {
  const { runId, tasks } = await lab.imported({ hello: smallTask() })
  const { digest } = tasks[0]
  const decided = await lab.decide(runId, 'hello', { digest, note: 'Looks right.' })
  expect(decided).toMatchObject({ status: 200, body: { taskId: 'hello', decision: 'approved' } })
  expect(await lab.task(runId, 'hello')).toMatchObject({ note: 'Looks right.', decidedAt: expect.any(String) })
  expect((await lab.read(runId)).counts).toMatchObject({ approved: 1, declined: 0 })
  expect(await approved()).toMatchObject([
    { runId, taskId: 'hello', title: 'hello', difficulty: 'easy', digest, pullRequest: null },
  ])
  expect((await approved())[0]?.archive).toMatch(/^sha256:[0-9a-f]{64}$/)
  expect((await lab.decide(runId, 'hello', { digest, decision: 'declined' })).body.decision).toBe('declined')
  expect([await approved(), (await lab.task(runId, 'hello')).note]).toEqual([[], null])
  expect((await lab.decide(runId, 'hello', { digest })).body.decision).toBe('approved')
  const { rows } = await app.database.pool.query(`select id from workspaces where login = 'local'`)
  const { events } = await listEvents(app.database.db, rows[0].id, { limit: 3 })
  expect(events.map(({ action, subject }) => `${action} ${subject}`)).toEqual(
    Array.from({ length: 3 }, () => `task.decided ${runId}/hello`),
  )
})

test('answers 409 for a decision on another digest', async () => {
  const { runId, tasks } = await lab.imported({ hello: smallTask() })
  const refused = await lab.decide(runId, 'hello', { digest: OTHER })
  expect(refused).toMatchObject({ status: 409, body: { code: 'task_changed', errors: [{ pointer: '/digest' }] } })
  expect(refused.body.detail).toContain(tasks[0].digest)
  expect((await lab.tasks(runId))[0].decision).toBeNull()
})

test('answers 409 for a task that is not ready', async () => {
  const { runId } = (await lab.send(buildArchive({ bad: { 'task.toml': 'no' }, hello: smallTask() }))).body
  await lab.work()
  const refused = await lab.decide(runId, 'bad', { digest: OTHER })
  expect(refused).toMatchObject({ status: 409, body: { code: 'task_not_ready', errors: [{ pointer: '' }] } })
  expect((await lab.decide(runId, 'nothing', { digest: OTHER })).status).toBe(404)
  expect((await lab.decide(runId, 'hello', { digest: OTHER, decision: 'maybe' })).status).toBe(422)
})

test('decides on several tasks at once or on none', async () => {
  const { runId, tasks } = await lab.imported({ a: smallTask(), b: smallTask(), bad: { 'task.toml': 'no' } })
  const [a, b] = tasks
  const send = (...decisions: object[]) =>
    app.call(decideTasks, { ...lab.at(runId), body: { decisions: decisions as never } })
  const options = (taskId: string, digest: string, decision = 'approved') => ({ taskId, digest, decision })
  const state = async () => (await lab.tasks(runId)).map(({ decision }: { decision: string | null }) => decision)

  const changed = await send(options('a', a.digest), options('b', OTHER))
  expect(changed).toMatchObject({
    status: 409,
    body: { code: 'task_changed', errors: [{ pointer: '/decisions/1/digest' }] },
  })
  const unready = await send(options('a', a.digest), options('bad', OTHER))
  expect(unready).toMatchObject({
    status: 409,
    body: { code: 'task_not_ready', errors: [{ pointer: '/decisions/1/taskId' }] },
  })
  const unknown = await send(options('a', a.digest), options('nothing', OTHER))
  expect(unknown).toMatchObject({ status: 422, body: { errors: [{ code: 'unknown_task' }] } })
  const twice = await send(options('a', a.digest), options('a', a.digest, 'declined'))
  expect(twice).toMatchObject({ status: 422, body: { errors: [{ pointer: '/decisions/1/taskId' }] } })
  expect((await send()).status).toBe(422)
  expect(await state()).toEqual([null, null, null])

  const decided = await send(options('b', b.digest, 'declined'), options('a', a.digest))
  expect(decided).toMatchObject({
    status: 200,
    body: {
      tasks: [
        { taskId: 'b', decision: 'declined' },
        { taskId: 'a', decision: 'approved' },
      ],
    },
  })
  expect(await state()).toEqual(['approved', 'declined', null])
})

test('concurrent decisions leave one complete decision', async () => {
  const { runId, tasks } = await lab.imported({ a: smallTask(), b: smallTask() })
  const all = (decision: 'approved' | 'declined', order: object[]) =>
    app.call(decideTasks, {
      ...lab.at(runId),
      body: { decisions: order.map((task) => ({ ...task, decision })) as never },
    })
  const wishes = tasks.map(({ taskId, digest }: { taskId: string; digest: string }) => ({ taskId, digest }))
  const answers = await Promise.all([all('approved', wishes), all('declined', wishes.toReversed())])
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  expect(new Set((await lab.tasks(runId)).map(({ decision }: { decision: string }) => decision)).size).toBe(1)
})
