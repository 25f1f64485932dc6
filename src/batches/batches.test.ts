import { readdir } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { createScriptedValidator, openImportLab, VALID } from '../../test/support/batches.ts'
import { toStream } from '../../test/support/harbor/unpacking.ts'
import { unpackToMemory } from '../harbor/archive.ts'
import { readTask } from '../harbor/read-task.ts'
import { isDigest } from '../platform/blobs/blob.ts'
import { readEvents } from '../platform/http/client.ts'
import { SandboxUnavailable } from '../sandboxes/sandbox.ts'
import { createKey, deleteKey } from '../workspaces/schema.ts'
import { sweepArchives } from './import.ts'
import * as schema from './schema.ts'
import type { ValidationOutcome } from './validate.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const key = () => ({ authorization: `Bearer ${app.adminKey}` })

test('imports and validates hand-written tasks', async () => {
  const lab = await openImportLab(app)
  const sent = await lab.send(buildArchive({ 'tasks/hello': smallTask(), 'tasks/bye': smallTask() }))
  expect(sent).toMatchObject({ status: 202, body: { run: { state: 'queued', startedAt: null, generation: null } } })
  expect(sent.body.runId).toMatch(/^batch-[0-9a-f-]{36}$/)
  expect(sent.body.run.runId).toBe(sent.body.runId)
  await lab.work()
  expect(await lab.read(sent.body.runId)).toMatchObject({
    state: 'completed',
    candidateCounts: { easy: 0, medium: 0, hard: 0 },
    counts: { discovered: 2, screened: 2, validated: 2, ready: 2, rejected: 0, authored: 0, approved: 0 },
    byDifficulty: { easy: { requested: 0, selected: 2, ready: 2 }, hard: { selected: 0 } },
    shortfall: 0,
    rejections: {},
    warnings: [],
    costUsd: 0,
  })
  expect(await lab.tasks(sent.body.runId)).toMatchObject([
    { taskId: 'bye', state: 'ready', difficulty: 'easy', pullRequest: null, decision: null },
    { taskId: 'hello', state: 'ready', digest: expect.stringMatching(/^sha256:/) },
  ])
  const list = await app.call(schema.listBatches, { params: lab.place })
  expect(list.body.batches).toMatchObject([{ runId: sent.body.runId, counts: { ready: 2 } }])
})

test('names the temporary folder after its task during validation and deletes it afterwards', async () => {
  const folders: string[] = []
  const validator = createScriptedValidator(({ folder }) => {
    folders.push(basename(dirname(folder)))
    return VALID
  })
  await (await openImportLab(app, validator)).imported({ hello: smallTask() })
  expect(folders).toEqual([expect.stringMatching(new RegExp(`^\\.trial-${process.pid}-\\d+-`))])
  expect(await readdir(app.tools.trialsFolder)).not.toContain(folders[0])
})

test('shows instruction, files and evidence of a task', async () => {
  const lab = await openImportLab(app)
  const { runId } = await lab.imported({ hello: smallTask({ 'tests/data/a b.txt': 'x' }) })
  const task = await lab.task(runId, 'hello')
  expect(task).toMatchObject({
    instruction: 'Write the word hello to /app/hello.txt.\n',
    evidence: { findings: expect.any(Array), calibration: { verifyMode: 'workspace', strength: 'standard' } },
  })
  const file = (path: string) => app.call(schema.readBatchTaskFile, lab.at(runId, { taskId: 'hello', path }))
  for (const { path } of task.files)
    expect((await file(path)).text).toBe({ ...smallTask(), 'tests/data/a b.txt': 'x' }[path as string])
  const { headers } = await file('tests/data/a b.txt')
  expect(headers.get('content-disposition')).toBe(`attachment; filename*=UTF-8''a%20b.txt`)
  expect([headers.get('x-content-type-options'), headers.get('content-length')]).toEqual(['nosniff', '1'])
  const base = `/api/orgs/local/repos/lab/${lab.place.name}/batches/${runId}/tasks/hello/files`
  expect((await app.fetch(`${base}/tests/data/a%20b.txt`, { headers: key() })).text).toBe('x')
  for (const path of ['nothing', '../task.toml', '/etc/passwd', 'tests', 'tests//test.sh', 'x\\y'])
    expect((await file(path)).status, path).toBe(404)
})

test('the archive of a task contains exactly its files', async () => {
  const lab = await openImportLab(app)
  const { runId, tasks } = await lab.imported({
    hello: smallTask({ '__pycache__/x.pyc': 'left out', 'notes.txt': 'too' }),
  })
  const base = `/api/orgs/local/repos/lab/${lab.place.name}/batches/${runId}/tasks/hello/archive`
  const response = await fetch(app.url + base, { headers: key() })
  expect(response.headers.get('content-type')).toBe('application/gzip')
  const source = await unpackToMemory(toStream(Buffer.from(await response.arrayBuffer())), 'hello')
  if (!source) throw new Error('The archive exceeds the memory limit.')
  expect((await readTask(source, { includeIgnored: true })).digest).toBe(tasks[0].digest)
})

test('rejects an invalid task with a reason, and no other task', async () => {
  const validator = createScriptedValidator(({ task }) => {
    if (!task.name.endsWith('unfit')) return VALID
    const { calibration } = VALID
    return { kind: 'rejected', rejection: { reason: 'oracle_fails', detail: 'Its reward is 0.' }, calibration }
  })
  const lab = await openImportLab(app, validator)
  const named = (name: string) => smallTask({ 'task.toml': `schema_version = "1.4"\n[task]\nname = "${name}"\n` })
  const { run, tasks, runId } = await lab.imported({
    fine: named('lab/fine'),
    twin: named('lab/fine'),
    unfit: named('lab/unfit'),
    broken: { 'task.toml': 'this is not toml', 'instruction.md': 'x' },
    unsafe: smallTask({ 'environment/Dockerfile': 'FROM debian\nRUN curl http://169.254.169.254/latest\n' }),
  })
  const reasons = tasks.map((task: { taskId: string; state: string; rejection?: { reason: string } }) => [
    task.taskId,
    task.state,
    task.rejection?.reason,
  ])
  expect(reasons).toEqual([
    ['broken', 'rejected', 'invalid_task'],
    ['fine', 'ready', undefined],
    ['twin', 'rejected', 'duplicate_name'],
    ['unfit', 'rejected', 'oracle_fails'],
    ['unsafe', 'rejected', 'unsafe_task'],
  ])
  expect(run).toMatchObject({
    state: 'completed',
    counts: { discovered: 5, screened: 2, ready: 1, rejected: 4 },
    rejections: { invalid_task: 1, duplicate_name: 1, oracle_fails: 1, unsafe_task: 1 },
  })
  const unsafe = await lab.task(runId, 'unsafe')
  expect(unsafe).toMatchObject({ digest: null, files: [], instruction: null })
  expect(unsafe.evidence.findings).toContainEqual(expect.objectContaining({ severity: 'block' }))
  const archive = await app.call(schema.readBatchTaskArchive, lab.at(runId, { taskId: 'unsafe' }))
  expect(archive.status).toBe(404)
})

test('a batch waits for a sandbox and continues when there is one', async () => {
  const lab = await openImportLab(app, createScriptedValidator(), { waits: { workerMs: 0, retryMs: 0, sandboxMs: 50 } })
  await lab.withdraw()
  await app.database.pool.query('delete from sandbox_offers')
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({
    state: 'waiting',
    waiting: { reason: 'sandbox' },
    counts: { screened: 1 },
  })
  await lab.offer()
  await app.database.pool.query('update jobs set run_at = now()')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
  expect(await lab.read(runId)).not.toHaveProperty('waiting')
})

test('defers when the sandbox is unavailable, rejects when only this task breaks it, and retries on resume', async () => {
  let answers: (() => ValidationOutcome)[] = [
    () => ({ kind: 'unavailable', detail: 'gone' }),
    ...Array.from({ length: 3 }, () => () => {
      throw new SandboxUnavailable('It does not build.')
    }),
  ]
  const lab = await openImportLab(
    app,
    createScriptedValidator(() => (answers.shift() ?? (() => VALID))()),
    {
      waits: { workerMs: 0, retryMs: 0, sandboxMs: 60_000 },
    },
  )
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'waiting' })
  for (let tries = 0; tries < 3; tries++) {
    await app.database.pool.query('update jobs set run_at = now()')
    await lab.work()
  }
  expect(await lab.tasks(runId)).toMatchObject([{ state: 'rejected', rejection: { reason: 'environment_failed' } }])
  expect((await lab.tasks(runId))[0].rejection.detail).toContain('It does not build.')
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', rejections: { environment_failed: 1 } })
  answers = []
  expect((await app.call(schema.resumeBatch, lab.at(runId))).body.state).toBe('queued')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1, rejected: 0 } })
  expect((await app.call(schema.resumeBatch, lab.at(runId))).body.state).toBe('completed')
})

test('a canceled batch stops, keeps ready tasks, and continues on resume', async () => {
  const tried: string[] = []
  const lab = await openImportLab(
    app,
    createScriptedValidator(async ({ task }) => {
      tried.push(task.name)
      if (tried.length === 2) await cancel()
      return VALID
    }),
  )
  const { runId } = (await lab.send(buildArchive({ a: smallTask(), b: smallTask(), c: smallTask() }))).body
  const cancel = () => app.call(schema.cancelBatch, lab.at(runId))
  await lab.work()
  expect(tried).toHaveLength(2)
  const canceled = await lab.read(runId)
  expect(canceled).toMatchObject({ state: 'canceled', counts: { discovered: 3, rejected: 0 } })
  expect(canceled.counts.ready).toBeGreaterThanOrEqual(1)
  expect((await cancel()).body).toEqual(canceled)
  expect((await app.call(schema.resumeBatch, lab.at(runId))).status).toBe(202)
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 3 } })
  expect((await cancel()).body.state).toBe('completed')
})

test('unpacks a batch on resume if it was canceled before it started', async () => {
  const lab = await openImportLab(app)
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  expect((await app.call(schema.cancelBatch, lab.at(runId))).body).toMatchObject({ state: 'canceled' })
  await lab.work()
  expect(await lab.tasks(runId)).toEqual([])
  await app.call(schema.resumeBatch, lab.at(runId))
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
})

test('streams events of a batch until it ends', async () => {
  const lab = await openImportLab(app)
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  const path = `/api/orgs/local/repos/lab/${lab.place.name}/batches/${runId}/events`
  const response = await fetch(app.url + path, { headers: key() })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  if (!response.body) throw new Error('There is no stream.')
  const states: string[] = []
  for await (const { event, data } of readEvents(response.body)) {
    states.push(`${event} ${JSON.parse(data).state}`)
    if (states.length === 1) await lab.work()
  }
  expect(states[0]).toBe('status queued')
  expect(states.slice(-2)).toEqual(['status completed', 'end completed'])
})

test('ends the event stream when its key is revoked', async () => {
  const lab = await openImportLab(app)
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  const reader = (await app.call(createKey, { body: { name: 'reader', permission: 'read' } })).body
  const path = `/api/orgs/local/repos/lab/${lab.place.name}/batches/${runId}/events`
  const response = await fetch(app.url + path, { headers: { authorization: `Bearer ${reader.key}` } })
  if (!response.body) throw new Error('There is no stream.')
  const states: string[] = []
  for await (const { event, data } of readEvents(response.body)) {
    states.push(`${event} ${JSON.parse(data).state}`)
    await app.call(deleteKey, { params: { keyId: reader.id } })
  }
  expect(states).toEqual(['status queued'])
})

test('the same archive with the same idempotency key is one batch; another archive is refused', async () => {
  const lab = await openImportLab(app)
  const once = { 'idempotency-key': 'import-once' }
  const archive = buildArchive({ hello: smallTask() })
  const first = await lab.send(archive, once)
  const again = await lab.send(archive, once)
  expect(again.text).toBe(first.text)
  expect(await lab.send(buildArchive({ other: smallTask() }), once)).toMatchObject({
    status: 409,
    body: { code: 'idempotency_key_reused' },
  })
  expect((await app.call(schema.listBatches, { params: lab.place })).body.batches).toHaveLength(1)
})

test('finds a batch only in its repository and workspace', async () => {
  const lab = await openImportLab(app)
  const beside = await openImportLab(app)
  const { runId } = await lab.imported({ hello: smallTask() })
  expect((await app.call(schema.readBatch, beside.at(runId))).status).toBe(404)
  expect((await app.call(schema.readBatchTask, lab.at(runId, { taskId: 'nothing' }))).status).toBe(404)
})

const toBatchId = (runId: string): string => runId.slice('batch-'.length)

async function readArchiveDigest(runId: string): Promise<string> {
  const { rows } = await app.database.pool.query('select archive from batches where id = $1', [toBatchId(runId)])
  return rows[0].archive
}

/**
 * Moves the end of the batch and the last use of the archive into the past, sweeps, and reports whether it is still
 * stored.
 */
async function archiveExistsAfter(days: number, runId: string, archive: string): Promise<boolean> {
  const { pool, db } = app.database
  await pool.query('update batches set finished_at = finished_at - make_interval(days => $2) where id = $1', [
    toBatchId(runId),
    days,
  ])
  await pool.query('update batch_archives set used_at = now() - make_interval(days => $1)', [days])
  await sweepArchives({ db, blobs: app.tools.blobs })
  return isDigest(archive) && (await app.tools.blobs.find(archive)) !== undefined
}

const GONE = { status: 409, body: { code: 'archive_gone' } }

test('deletes an archive without tasks after a day, and its batch cannot be resumed', async () => {
  const lab = await openImportLab(app)
  const { runId } = (await lab.send(buildArchive({ nothing: { 'readme.md': 'No task.' } }))).body
  const archive = await readArchiveDigest(runId)
  await lab.work()
  const run = await lab.read(runId)
  expect(run).toMatchObject({ state: 'failed', error: { code: 'no_tasks', retryable: false } })
  expect(await archiveExistsAfter(0, runId, archive)).toBe(true)
  expect(await archiveExistsAfter(2, runId, archive)).toBe(false)
  expect(await app.call(schema.resumeBatch, lab.at(runId))).toMatchObject(GONE)
  await lab.work()
  expect((await lab.read(runId)).error).toEqual(run.error)
})

test('keeps the archive of a canceled batch for a week', async () => {
  const lab = await openImportLab(app)
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  const archive = await readArchiveDigest(runId)
  await app.call(schema.cancelBatch, lab.at(runId))
  expect(await archiveExistsAfter(6, runId, archive)).toBe(true)
  expect((await app.call(schema.resumeBatch, lab.at(runId))).status).toBe(202)
  expect(await archiveExistsAfter(8, runId, archive)).toBe(true)
  await app.call(schema.cancelBatch, lab.at(runId))
  expect(await archiveExistsAfter(8, runId, archive)).toBe(false)
  expect(await app.call(schema.resumeBatch, lab.at(runId))).toMatchObject(GONE)
  expect((await lab.read(runId)).state).toBe('canceled')
})

test('deletes an archive a day after its tasks are listed', async () => {
  const lab = await openImportLab(app)
  const waiting = (await lab.send(buildArchive({ hello: smallTask() }))).body.runId
  await app.database.pool.query(`update batch_archives set used_at = now() - interval '2 days'`)
  await sweepArchives({ db: app.database.db, blobs: app.tools.blobs })
  await lab.work()
  expect(await lab.read(waiting)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
  await sweepArchives({ db: app.database.db, blobs: app.tools.blobs })
  const { rows } = await app.database.pool.query(
    `select digest from batch_archives where used_at < now() - interval '1 day'`,
  )
  expect(rows).toEqual([])
})
