import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { createScriptedValidator, openImportLab, VALID } from '../../test/support/batches.ts'
import { type GenerationApp, openGenerationLab, startGenerationApp } from '../../test/support/generating.ts'
import { createScriptedStages, doneAt } from '../../test/support/taskgen/scripted-stages.ts'
import { done } from '../taskgen/stage-result.ts'
import { decideTasks, putBatchTaskFile, readBatchTaskFile } from './schema.ts'

let app: TestApp
let made: GenerationApp & AsyncDisposable
beforeAll(async () => {
  app = await testApp()
  made = await startGenerationApp()
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await made[Symbol.asyncDispose]()
})

const EASY = { easy: 1, medium: 0, hard: 0 }

test('a changed instruction is reviewed again without executing anything again', async () => {
  const lab = await openGenerationLab(made, { changes: EASY })
  const { runId, tasks } = await lab.made(EASY)
  const { taskId, digest } = tasks[0]
  const at = lab.at(runId, { taskId, path: 'instruction.md' })
  const bulk = { decisions: [{ taskId, decision: 'approved' as const, digest }] }
  expect((await made.call(decideTasks, { ...lab.at(runId), body: bulk })).status).toBe(200)
  const etag = (await made.call(readBatchTaskFile, at)).headers.get('etag') ?? ''
  const before = lab.stages.runs.length
  const put = await made.call(putBatchTaskFile, {
    ...at,
    body: { content: 'Do it better.\n' },
    headers: { 'if-match': etag },
  })
  expect(put).toMatchObject({
    status: 202,
    body: { state: 'making', stage: 'lint', decision: null, instruction: 'Do it better.\n' },
  })
  expect(put.headers.get('etag')).not.toBe(etag)
  expect(await lab.read(runId)).toMatchObject({ state: 'queued', counts: { ready: 0, approved: 0, executed: 1 } })
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
  const ran = lab.stages.runs.slice(before).map(({ stage }) => stage)
  // Validated is taken over: it depends on every file but the instruction.
  expect(ran).toEqual(['lint', 'assembly', 'review', 'difficulty'])
  const after = await lab.task(runId, taskId)
  expect(after).toMatchObject({
    state: 'ready',
    decision: null,
    instruction: 'Do it better.\n',
    digest: put.body.digest,
  })
  expect(after.digest).not.toBe(digest)
  const stale = await made.call(decideTasks, { ...lab.at(runId), body: bulk })
  expect(stale).toMatchObject({ status: 409, body: { code: 'task_changed' } })
})

test('refuses an edit based on an outdated version', async () => {
  const lab = await openImportLab(app)
  const { runId } = await lab.imported({ hello: smallTask() })
  const at = lab.at(runId, { taskId: 'hello', path: 'instruction.md' })
  const put = (headers: Record<string, string>, content = 'x\n') =>
    app.call(putBatchTaskFile, { ...at, body: { content }, headers })
  expect(await put({})).toMatchObject({ status: 428, body: { code: 'precondition_required' } })
  expect(await put({ 'if-match': '"old"' })).toMatchObject({ status: 412, body: { code: 'precondition_failed' } })
  const etag = (await app.call(readBatchTaskFile, at)).headers.get('etag') ?? ''
  expect(await put({ 'if-match': `"other", ${etag}` })).toMatchObject({ status: 202, body: { state: 'validating' } })
  expect(await put({ 'if-match': etag })).toMatchObject({ status: 412 })
  expect(await put({ 'if-match': '*' })).toMatchObject({ status: 409, body: { code: 'task_not_ready' } })
  await lab.work()
  expect(await lab.task(runId, 'hello')).toMatchObject({ state: 'ready', instruction: 'x\n' })
  const missing = { ...lab.at(runId, { taskId: 'hello', path: 'nothing' }), body: { content: 'x' } }
  expect((await app.call(putBatchTaskFile, { ...missing, headers: { 'if-match': '*' } })).status).toBe(404)
})

test('one of two concurrent edits of a file is refused', async () => {
  const lab = await openImportLab(app)
  const { runId } = await lab.imported({ hello: smallTask() })
  const at = lab.at(runId, { taskId: 'hello', path: 'instruction.md' })
  const etag = (await app.call(readBatchTaskFile, at)).headers.get('etag') ?? ''
  const put = (content: string) =>
    app.call(putBatchTaskFile, { ...at, body: { content }, headers: { 'if-match': etag } })
  const answers = await Promise.all([put('one\n'), put('two\n')])
  expect(answers.map(({ status }) => status).toSorted()).toEqual([202, 412])
})

test('refuses an edit that makes a task unsafe or unreadable', async () => {
  const lab = await openImportLab(app)
  const { runId, tasks } = await lab.imported({ hello: smallTask() })
  const put = (path: string, content: string) =>
    app.call(putBatchTaskFile, {
      ...lab.at(runId, { taskId: 'hello', path }),
      body: { content },
      headers: { 'if-match': '*' },
    })
  expect(await put('task.toml', 'not toml')).toMatchObject({
    status: 422,
    body: { errors: [{ pointer: '/content', code: 'invalid_task' }] },
  })
  const unsafe = 'FROM debian\nRUN curl http://169.254.169.254/latest\n'
  expect((await put('environment/Dockerfile', unsafe)).body.errors).toMatchObject([{ code: 'unsafe_task' }])
  expect(await lab.task(runId, 'hello')).toMatchObject({ state: 'ready', digest: tasks[0].digest })
})

test('allows editing only the instruction of a generated task, and nothing of a canceled batch', async () => {
  const lab = await openGenerationLab(made, { changes: { easy: 2, medium: 0, hard: 0 } })
  const { runId, tasks } = await lab.made({ easy: 1 })
  const put = (id: string, path: string) =>
    made.call(putBatchTaskFile, {
      ...lab.at(id, { taskId: tasks[0].taskId, path }),
      body: { content: 'x\n' },
      headers: { 'if-match': '*' },
    })
  expect(await put(runId, 'tests/test.sh')).toMatchObject({ status: 409, body: { code: 'file_not_editable' } })
  await made.database.pool.query(`update batches set state = 'canceled' where 'batch-' || id = '${runId}'`)
  expect(await put(runId, 'instruction.md')).toMatchObject({ status: 409, body: { code: 'batch_stopped' } })
})

test('approves several tasks at once only if none has warnings', async () => {
  const concerned = { concerns: ['The verifier is not sure.'] }
  const stages = createScriptedStages({
    review: (making) =>
      making.candidate.number === 1 ? done({ ...doneAt('review', making), ...concerned }) : (undefined as never),
  })
  const lab = await openGenerationLab(made, { changes: { easy: 2, medium: 0, hard: 0 }, stages })
  const { runId, tasks } = await lab.made({ easy: 2 })
  const decisions = (decision: 'approved' | 'declined') =>
    tasks.map(({ taskId, digest }: { taskId: string; digest: string }) => ({ taskId, digest, decision }))
  const bulk = (decision: 'approved' | 'declined') =>
    made.call(decideTasks, { ...lab.at(runId), body: { decisions: decisions(decision) } })
  const refused = await bulk('approved')
  const doubted = tasks.findIndex(({ concerns }: { concerns: string[] }) => concerns.length > 0)
  expect(refused).toMatchObject({
    status: 409,
    body: { code: 'task_not_green', errors: [{ pointer: `/decisions/${doubted}/taskId` }] },
  })
  expect(await lab.read(runId)).toMatchObject({ counts: { approved: 0 } })
  expect((await bulk('declined')).status).toBe(200)
})

test.each([
  [{ winners: ['exit-zero'] }, 'Known cheats score: exit-zero.'],
  [{ weakness: 'The tests run a script of the agent.' }, 'The verifier is weak: The tests run a script of the agent.'],
])('does not approve an imported task with a weak verifier in bulk: %j', async (found, concern) => {
  const { calibration } = VALID as Extract<typeof VALID, { kind: 'valid' }>
  const weak = { ...calibration, strength: 'weak' as const, ...found }
  const lab = await openImportLab(
    app,
    createScriptedValidator(() => ({ kind: 'valid', calibration: weak })),
  )
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  await lab.work()
  const [task] = await lab.tasks(runId)
  expect(task.concerns).toEqual([concern])
  const body = { decisions: [{ taskId: 'hello', digest: task.digest, decision: 'approved' as const }] }
  expect(await app.call(decideTasks, { ...lab.at(runId), body })).toMatchObject({ status: 409 })
  expect((await lab.decide(runId, 'hello', { digest: task.digest })).status).toBe(200)
})
