import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { smallTask } from '../../test/support/archives.ts'
import { type CodeHostServer, startCodeHost } from '../../test/support/code-host.ts'
import { APPROVED, createScriptedEngine, openRepositoryComparisonLab } from '../../test/support/comparisons.ts'
import { connectRepository, readRepository, removeRepository } from '../repos/schema.ts'
import { inRepository } from './schema.ts'

let app: TestApp
let host: CodeHostServer
let lab: Awaited<ReturnType<typeof openRepositoryComparisonLab>>
beforeAll(async () => {
  host = await startCodeHost()
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
  lab = await openRepositoryComparisonLab(app)
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
})

test('a comparison on approved tasks runs from request to results', async () => {
  const { tasks } = (await app.call(inRepository.options, { params: lab.params })).body
  expect(tasks.map(({ taskId }: { taskId: string }) => taskId)).toEqual(APPROVED.toSorted())
  expect(tasks[0]).toEqual({
    runId: lab.runId,
    taskId: 'five',
    title: 'five',
    difficulty: 'easy',
    pullRequest: null,
    digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
  })
  const created = await lab.create()
  expect(created).toMatchObject({
    status: 202,
    body: { state: 'submitting', frozen: null, scope: { kind: 'repository', ...lab.params } },
  })
  expect(created.body).not.toHaveProperty('submissionError')
  await lab.work()
  const done = await lab.read(created.body.id)
  expect(done).toMatchObject({
    state: 'completed',
    frozen: { tasks: 5, digest: expect.stringMatching(/^sha256:/) },
    trials: { total: 10, passed: 5, failed: 5, errored: 0 },
    settings: [
      { id: 'reference|oracle|none', tasks: 5, passed: 5, accuracy: 100 },
      { id: 'reference|nop|none', tasks: 5, passed: 0, accuracy: 0 },
    ],
  })
  const [trial] = await lab.trials(created.body.id, { task: 'five', setting: 'reference|oracle|none' })
  expect(trial).toMatchObject({
    task: { name: 'five', digest: tasks[0].digest, runId: lab.runId, taskId: 'five' },
    state: 'passed',
  })
  const at = lab.at(created.body.id, { trialId: trial.id })
  expect((await app.call(inRepository.trial, at)).body).toEqual({ ...trial, spoiled: [] })
  expect((await app.call(inRepository.calls, at)).body).toEqual({ calls: [], nextCursor: null })
  const matrix = (await app.call(inRepository.matrix, lab.at(created.body.id))).body
  expect(matrix.tasks).toEqual(APPROVED.map((name) => ({ name, cells: 'pf' })))
  const voided = await app.call(inRepository.void, { ...at, body: { reason: 'Too loud.' } })
  expect(voided.body).toMatchObject({ task: { taskId: 'five' }, voided: { reason: 'Too loud.' } })
  const twice = await app.call(inRepository.void, { ...at, body: { reason: 'Too loud.' } })
  expect(twice).toMatchObject({ status: 409, body: { code: 'trial_not_scored' } })
  const path = `/api/orgs/local/repos/lab/${lab.params.name}/evaluations/comparisons/${created.body.id}/events`
  const events = await app.fetch(path, { headers: { authorization: `Bearer ${app.adminKey}` } })
  expect([events.status, events.text]).toEqual([200, expect.stringMatching(/^event: status\n.*\n\nevent: end\n/m)])
  const { evaluations } = (await app.call(inRepository.list, { params: lab.params })).body
  const status = await lab.read(created.body.id)
  expect(status.answer.state).toBe('inconclusive')
  expect(evaluations).toHaveLength(1)
  // A list contains the same facts as a status, without statistics that compare settings.
  expect([status]).toMatchObject(evaluations)
})

test('chosen tasks run in the chosen order; tasks with the same name stay distinct', async () => {
  const again = await lab.repository.imported({ two: smallTask() })
  await lab.repository.decide(again.runId, 'two', { digest: again.tasks[0].digest })
  const tasks = [
    { runId: lab.runId, taskId: 'two' },
    { runId: again.runId, taskId: 'two' },
    { runId: lab.runId.toUpperCase(), taskId: 'one' },
  ]
  const { body } = await lab.create({ tasks })
  await lab.work()
  const { frozen, state } = await lab.read(body.id)
  expect([state, frozen.tasks]).toEqual(['completed', 3])
  const names = (await app.call(inRepository.matrix, lab.at(body.id))).body.tasks.map(
    ({ name }: { name: string }) => name,
  )
  expect(names).toEqual([`${lab.runId}/two`, `${again.runId}/two`, 'one'])
  const [trial] = await lab.trials(body.id, { task: `${again.runId}/two` })
  expect(trial.task).toMatchObject({ runId: again.runId, taskId: 'two', digest: again.tasks[0].digest })
  await lab.repository.decide(again.runId, 'two', { decision: 'declined', digest: again.tasks[0].digest })
})

test('a task declined later stays in existing comparisons and is rejected in new ones', async () => {
  const engine = createScriptedEngine()
  const own = await openRepositoryComparisonLab(app, engine)
  const waiting = await own.create()
  const { tasks } = (await app.call(inRepository.options, { params: own.params })).body
  for (const { taskId, digest } of tasks)
    await own.repository.decide(own.runId, taskId, { decision: 'declined', digest })
  await own.work()
  expect(await own.read(waiting.body.id)).toMatchObject({ state: 'completed', trials: { total: 10, passed: 5 } })
  expect(engine.orders).toHaveLength(10)
  expect((await app.call(inRepository.options, { params: own.params })).body.tasks).toEqual([])
  expect((await own.create()).status).toBe(422)
  expect((await app.call(inRepository.resumeShort, own.at(waiting.body.id))).status).toBe(202)
})

test('a reused trial is readable with its artifacts where it is referenced, also from another repository', async () => {
  const other = await openRepositoryComparisonLab(app)
  const source = await lab.create()
  await lab.work()
  const { body } = await other.create({ skipCompleted: true })
  await other.work()
  expect((await other.read(body.id)).trials.reused).toBe(10)
  const [reusing] = await other.trials(body.id)
  const at = (trialId: string, artifact = '') => ({ params: { ...other.at(body.id).params, trialId, artifact } })

  const original = await app.call(inRepository.trial, at(reusing.reusedFrom) as never)
  expect(original).toMatchObject({
    status: 200,
    body: { id: reusing.reusedFrom, state: reusing.state, settingId: reusing.settingId },
  })
  expect(original.body.task.digest).toBe(reusing.task.digest)
  const [artifact] = original.body.artifacts
  const file = await app.call(inRepository.artifact, at(reusing.reusedFrom, artifact.name) as never)
  expect([file.status, file.text.length]).toEqual([200, artifact.bytes])
  expect((await app.call(inRepository.calls, at(reusing.reusedFrom) as never)).status).toBe(200)

  // It is read there and not changed; and other trials of the workspace are not read there at all.
  const voiding = { ...at(reusing.reusedFrom), body: { reason: 'no' } }
  expect((await app.call(inRepository.void, voiding as never)).status).toBe(404)
  const reused = new Set((await other.trials(body.id)).map((trial: { reusedFrom: string }) => trial.reusedFrom))
  const unused = await lab.create()
  await lab.work()
  for (const trial of await lab.trials(unused.body.id))
    if (!reused.has(trial.id)) expect((await app.call(inRepository.trial, at(trial.id) as never)).status).toBe(404)
  expect((await lab.read(source.body.id)).state).toBe('completed')
})

test('a comparison can have 5,000 tasks', async () => {
  const own = await openRepositoryComparisonLab(app)
  await app.database.pool.query(
    `insert into batch_tasks (batch, id, state, title, digest, evidence, decision)
     select batch, 'many-' || n, state, title, digest, evidence, decision from batch_tasks, generate_series(1, 4995) as n
     where batch = $1 and id = 'one'`,
    [own.runId.slice('batch-'.length)],
  )
  const { tasks } = (await app.call(inRepository.options, { params: own.params })).body
  expect(tasks).toHaveLength(5000)
  const pairs = tasks.map(({ runId, taskId }: { runId: string; taskId: string }) => ({ runId, taskId }))
  const { status, body } = await own.create({ tasks: pairs })
  expect(status).toBe(202)
  // No trial runs: only the submission is worked on.
  await own.work('docker')
  expect(await own.read(body.id)).toMatchObject({
    state: 'running',
    frozen: { tasks: 5000 },
    trials: { total: 10_000, queued: 10_000 },
  })
  await own.cancel(body.id)
})

test('a quote covers the chosen tasks', async () => {
  const { tasks, models } = { tasks: [{ runId: lab.runId, taskId: 'one' }], ...lab.body() }
  const quote = (over: object) => app.call(inRepository.quote, { params: lab.params, body: { tasks, models, ...over } })
  expect((await quote({ tasks: [{ runId: lab.runId, taskId: 'one' }], attempts: 3 })).body).toMatchObject({
    tasks: 1,
    settings: 2,
    trials: 6,
    costUsd: { low: 0, expected: 0, high: 0 },
  })
  expect((await app.call(inRepository.quote, { params: lab.params, body: lab.body() as never })).status).toBe(200)
  const unknown = await quote({ tasks: [{ runId: lab.runId, taskId: 'none' }] })
  expect(unknown).toMatchObject({ status: 422, body: { errors: [{ pointer: '/tasks/0', code: 'unknown_task' }] } })
})

test('repository names are compared without case, and a renamed repository keeps its comparisons', async () => {
  const hosted = host.add('Lab/Moving')
  const own = await openRepositoryComparisonLab(app)
  const first = { owner: 'lab', name: 'moving' }
  const body = { source: { kind: 'github' } } as const
  await app.call(connectRepository, { params: first, body })
  await app.database.pool.query(
    `update batches set repository = (select key from repositories where name = 'Moving') where id = $1`,
    [own.runId.slice('batch-'.length)],
  )
  const input = own.body()
  const { body: created } = await app.call(inRepository.create, { params: first, body: input as never })
  expect(created.scope).toEqual({ kind: 'repository', owner: 'Lab', name: 'Moving' })
  const shouted = { owner: 'LAB', name: 'MOVING' }
  const again = await app.call(inRepository.create, { params: shouted, body: input as never })
  expect(again).toMatchObject({ status: 202, body: { id: created.id } })
  host.rename(hosted, 'Moved')
  await app.call(connectRepository, { params: { owner: 'lab', name: 'moved' }, body })
  const here = { owner: 'lab', name: 'moved', comparisonId: created.id }
  expect((await app.call(inRepository.read, { params: here })).body.scope).toMatchObject({ name: 'Moved' })
  expect((await app.call(inRepository.read, { params: { ...first, comparisonId: created.id } })).status).toBe(404)
  await app.call(inRepository.cancel, { params: here })
})

test('an unconnected repository is 404 for every read; the first write connects a public one', async () => {
  const body = lab.body()
  const unknown = { owner: 'nobody', name: 'nothing' }
  const { list, options, catalog, create, quote } = inRepository
  for (const endpoint of [list, options, catalog])
    expect((await app.call(endpoint, { params: unknown })).status).toBe(404)
  expect((await app.call(create, { params: unknown, body: body as never })).status).toBe(404)
  const { id: _, sandbox: __, sandboxCredentialId: ___, ...question } = body
  expect((await app.call(quote, { params: unknown, body: question as never })).status).toBe(404)

  host.add('hidden/thing', 'private')
  const hidden = await app.call(create, { params: { owner: 'hidden', name: 'thing' }, body: body as never })
  expect(hidden.status).toBe(404)

  host.add('open/thing')
  const place = { owner: 'open', name: 'thing' }
  const connected = await app.call(create, { params: place, body: body as never })
  expect(connected).toMatchObject({ status: 422, body: { errors: { length: 5, 0: { code: 'unknown_task' } } } })
  expect((await app.call(readRepository, { params: place })).body.visibility).toBe('public')
  expect((await app.call(options, { params: place })).body).toEqual({ tasks: [] })
})

test('an unavailable code host answers 503 and nothing is created', async () => {
  await using alone = await testApp()
  const body = { ...lab.body() }
  const answer = await alone.call(inRepository.create, { params: { owner: 'open', name: 'away' }, body: body as never })
  expect(answer).toMatchObject({ status: 503, body: { code: 'code_host_unavailable', retryable: true } })
})

test('a repository cannot be removed while a comparison runs; reconnecting it restores its comparisons', async () => {
  const own = await openRepositoryComparisonLab(app)
  const { body } = await own.create()
  const remove = () => app.call(removeRepository, { params: own.params })
  expect(await remove()).toMatchObject({ status: 409, body: { code: 'repository_busy' } })
  await own.work()
  expect((await remove()).status).toBe(204)
  expect((await app.call(inRepository.read, own.at(body.id))).status).toBe(404)
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await app.call(connectRepository, { params: own.params, body: { source } })
  expect((await own.read(body.id)).state).toBe('completed')
})

test('a repository cannot be removed while a comparison is paused', async () => {
  const own = await openRepositoryComparisonLab(app)
  const { body } = await own.create()
  expect((await own.pause(body.id)).status).toBe(409)
  // No trial runs: only the submission is worked on.
  await own.work('docker')
  expect(await own.pause(body.id)).toMatchObject({ status: 202, body: { state: 'paused', trials: { running: 0 } } })
  const remove = () => app.call(removeRepository, { params: own.params })
  expect(await remove()).toMatchObject({ status: 409, body: { code: 'repository_busy' } })
  expect((await own.cancel(body.id)).status).toBe(202)
  expect((await remove()).status).toBe(204)
})
