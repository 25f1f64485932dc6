import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { openImportLab } from '../../test/support/batches.ts'
import { type RawEntry, tar, tgz } from '../../test/support/harbor/raw-tar.ts'
import { importBatch } from './schema.ts'

let app: TestApp
let lab: Awaited<ReturnType<typeof openImportLab>>
beforeAll(async () => {
  app = await testApp()
})
beforeEach(async () => {
  lab = await openImportLab(app)
})
afterAll(async () => app[Symbol.asyncDispose]())

const filesIn = (...path: string[]): string[] => {
  const folder = join(app.tools.config.dataFolder, ...path)
  if (!existsSync(folder)) return []
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** Everything of a request or a job that could be left lying about. */
const leftovers = () => [...filesIn('uploads'), ...filesIn('drafts'), ...filesIn('trials')]

const address = () => `${app.url}/api/orgs/local/repos/lab/${lab.place.name}/batches/import`
const post = (body: Uint8Array | ReadableStream, type: string | undefined) =>
  app.fetch(address().slice(app.url.length), {
    method: 'POST',
    headers: { authorization: `Bearer ${app.adminKey}`, ...(type === undefined ? {} : { 'content-type': type }) },
    body,
    duplex: 'half',
  } as RequestInit)

const MIB = 1024 * 1024
const batches = async () => (await app.database.pool.query('select count(*)::int as count from batches')).rows[0].count

test('answers 413 for more than 64 MiB, with or without Content-Length, and stores nothing', async () => {
  const before = await batches()
  const large = new Uint8Array(64 * MIB + 1)
  large.set([0x1f, 0x8b])
  expect(await post(large, 'application/gzip')).toMatchObject({ status: 413, body: { code: 'body_too_large' } })
  let sent = 0
  const endless = new ReadableStream({
    pull(controller) {
      sent += MIB
      controller.enqueue(new Uint8Array(MIB).fill(1))
      if (sent > 80 * MIB) controller.close()
    },
  })
  const outcome = await post(endless, 'application/gzip').then(
    ({ status }) => status,
    () => 'connection closed',
  )
  expect([413, 'connection closed']).toContain(outcome)
  expect([await batches(), leftovers()]).toEqual([before, []])
})

test('accepts exactly 64 MiB', async () => {
  const archive = new Uint8Array(64 * MIB)
  archive.set([0x1f, 0x8b])
  expect((await post(archive, 'application/gzip')).status).toBe(202)
})

test('answers 400 for invalid gzip and 415 for another content type', async () => {
  const before = await batches()
  expect(await post(tar({ name: 'a/task.toml' }), 'application/gzip')).toMatchObject({
    status: 400,
    body: { code: 'malformed_body' },
  })
  expect((await post(new Uint8Array(), 'application/gzip')).status).toBe(400)
  expect((await post(new Uint8Array([0x1f]), 'application/gzip')).status).toBe(400)
  expect((await post(buildArchive({ hello: smallTask() }), 'application/json')).status).toBe(415)
  expect((await post(buildArchive({ hello: smallTask() }), undefined)).status).toBe(415)
  expect([await batches(), leftovers()]).toEqual([before, []])
})

const task = (...more: RawEntry[]): Buffer => buildArchive({ hello: smallTask() }, ...more)
const bomb = () => gzipSync(Buffer.alloc(32 * MIB))

test.each<[string, () => Buffer, string]>([
  ['a zip bomb', bomb, 'archive_refused'],
  [
    'a bomb inside a task',
    () => task({ name: 'hello/tests/zeros', content: Buffer.alloc(32 * MIB) }),
    'archive_refused',
  ],
  ['an archive that was cut off', () => task().subarray(0, 200), 'archive_refused'],
  ['gzip of something else', () => gzipSync('hello'), 'archive_refused'],
  ['no entries', () => tgz(), 'archive_refused'],
  ['only folders', () => tgz({ name: 'hello/', type: '5' }), 'no_tasks'],
  ['no task', () => tgz({ name: 'README.md', content: 'x' }), 'no_tasks'],
  ['a task too deep', () => buildArchive({ 'a/b/c/d/hello': smallTask() }), 'no_tasks'],
  ['a link', () => task({ name: 'hello/tests/passwd', type: '2', target: '/etc/passwd' }), 'archive_refused'],
  ['a link inside', () => task({ name: 'hello/tests/again', type: '2', target: 'test.sh' }), 'archive_refused'],
  ['a hard link', () => task({ name: 'hello/x', type: '1', target: 'hello/task.toml' }), 'archive_refused'],
  ['a device', () => task({ name: 'hello/tests/null', type: '3' }), 'archive_refused'],
  ['a path that leads out', () => task({ name: '../escaped', content: 'x' }), 'archive_refused'],
  ['an absolute path', () => task({ name: '/tmp/escaped', content: 'x' }), 'archive_refused'],
  ['a file twice', () => task({ name: 'hello/task.toml', content: 'x' }), 'archive_refused'],
  ['a name in two casings', () => task({ name: 'HELLO/task.toml', content: 'x' }), 'archive_refused'],
  [
    'more tasks than a batch has',
    () => buildArchive(Object.fromEntries(Array.from({ length: 301 }, (_, n) => [`t${n}`, { 'task.toml': '' }]))),
    'too_many_tasks',
  ],
])('an archive with %s fails the batch with a reason and leaves no files', async (_what, archive, code) => {
  const { status, body } = await app.call(importBatch, { params: lab.place, upload: archive() })
  expect(status).toBe(202)
  await lab.work()
  const run = await lab.read(body.runId)
  expect(run).toMatchObject({ state: 'failed', error: { code, retryable: false }, counts: { discovered: 0 } })
  expect(run.error.message).not.toBe('')
  expect([await lab.tasks(body.runId), leftovers()]).toEqual([[], []])
})

test('gives two folders of the same name different ids and rejects the second as a duplicate', async () => {
  const { run, tasks } = await lab.imported({ 'a/hello': smallTask(), 'b/hello': smallTask() })
  expect(run.rejections).toEqual({ duplicate_name: 1 })
  expect(tasks).toMatchObject([
    { taskId: 'hello', state: 'ready' },
    { taskId: 'hello-2', state: 'rejected' },
  ])
})

test('derives a URL-safe id from any folder name and ignores files outside tasks', async () => {
  const { run, tasks } = await lab.imported({ '--x y&z': smallTask(), ünï: smallTask(), '': { 'README.md': 'x' } })
  const ids: string[] = tasks.map(({ taskId }: { taskId: string }) => taskId)
  expect(ids).toHaveLength(2)
  for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)
  expect(run.warnings).toEqual(['1 files or folders of the archive belong to no task and were left out.'])
})

test('accepts a single task at the root of the archive', async () => {
  const { tasks } = await lab.imported({ '': smallTask() })
  expect(tasks).toMatchObject([{ taskId: 'task', state: 'ready' }])
})

test('rejects a task whose instruction has a NUL character, and no other task', async () => {
  const { run, tasks } = await lab.imported({
    bad: smallTask({ 'instruction.md': 'Write\0 hello.\n' }),
    good: smallTask(),
  })
  expect(run).toMatchObject({ state: 'completed' })
  expect(tasks).toMatchObject([
    { taskId: 'bad', state: 'rejected', rejection: { reason: 'invalid_task', detail: expect.stringContaining('NUL') } },
    { taskId: 'good', state: 'ready' },
  ])
})

test('the same files with other modes do not change stored tasks', async () => {
  const files = smallTask({ 'environment/start.sh': '#!/bin/sh\ntrue\n' })
  const first = await lab.imported({ mine: files })
  const [{ digest }] = first.tasks
  const archive = async () =>
    (await app.database.pool.query('select archive from task_contents where digest = $1', [digest])).rows[0].archive
  const before = await archive()
  const entries = Object.entries(files).map(([path, content]) => ({ name: `mine/${path}`, content, mode: 0o644 }))
  const { body } = await lab.send(tgz(...entries))
  await lab.work()
  expect(await lab.tasks(body.runId)).toMatchObject([{ state: 'ready', digest }])
  expect(await archive()).toBe(before)
})

test('answers 409 when the imports of a workspace take more than 4 GiB, and stores nothing of the archive', async () => {
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  await app.database.pool.query(`update batches set archive_bytes = $1 where 'batch-' || id = $2`, [4096 * MIB, runId])
  const before = [await batches(), filesIn('blobs').length]
  const refused = await post(buildArchive({ hello: smallTask() }), 'application/gzip')
  expect(refused).toMatchObject({ status: 409, body: { code: 'imports_full' } })
  expect([await batches(), filesIn('blobs').length]).toEqual(before)
  await app.database.pool.query(`update batches set archive_bytes = 0 where 'batch-' || id = $1`, [runId])
  expect(await post(buildArchive({ hello: smallTask() }), 'application/gzip')).toMatchObject({ status: 202 })
})
