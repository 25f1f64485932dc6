import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import type { ArchiveFiles } from '../../test/support/archives.ts'
import { tar, tgz } from '../../test/support/harbor/raw-tar.ts'
import { insertComparison, openReleaseLab } from '../../test/support/releases.ts'
import { putBatchTaskFile, readBatchTaskFile } from '../batches/schema.ts'
import { listPublicTasks, readPublicTaskArchive } from '../results/schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const A = 'acme/small|mini|low'

type TaskFilesLab = Awaited<ReturnType<typeof openReleaseLab>>

async function digestsOf(lab: TaskFilesLab): Promise<Record<string, string>> {
  const { body } = await app.call(listPublicTasks, { params: lab.place, key: null })
  return Object.fromEntries(body.tasks.map(({ taskId, digest }: Record<string, string>) => [taskId, digest]))
}

/** Answers the digest that it has now, approved. */
async function changeInstruction(lab: TaskFilesLab, taskId: string, content: string): Promise<string> {
  const at = lab.at(lab.runId, { taskId, path: 'instruction.md' })
  const etag = (await app.call(readBatchTaskFile, at)).headers.get('etag') ?? ''
  const put = await app.call(putBatchTaskFile, { ...at, body: { content }, headers: { 'if-match': etag } })
  await lab.work()
  const { digest } = put.body
  expect((await lab.decide(lab.runId, taskId, { digest })).status).toBe(200)
  return digest
}

test('changed files are public as in the newest release that published them', async () => {
  const lab = await openReleaseLab(app)
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

test('two tasks that swapped ids are public under their current ids', async () => {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: A, cells: 'pppppp' })
  await lab.publishAll({ publishTasks: true })
  const before = await digestsOf(lab)
  await changeInstruction(lab, 'one', 'Say two.\n')
  await changeInstruction(lab, 'two', 'Say one.\n')
  expect((await lab.publishAll({ publishTasks: true })).status).toBe(200)
  expect(await digestsOf(lab)).toEqual({ ...before, one: before.two, two: before.one })
})

const SECRET = `AKIA${'QZ3M7KD5LX2W6RTV'}`
const noted = { name: 'src/notes.md', content: `first\n${SECRET}\n` }
const line = `${'x'.repeat(99)}\n`
const long = (before: number) => `${'-'.repeat(before)} ${SECRET} ${'-'.repeat(2_000_000)}`

test.each<[string, ArchiveFiles, object]>([
  [
    'in an archive',
    { 'environment/repo.tar.gz': tgz(noted) },
    { path: 'environment/repo.tar.gz/src/notes.md', line: 2 },
  ],
  ['in a .tgz', { 'tests/repo.tgz': tgz(noted) }, { path: 'tests/repo.tgz/src/notes.md', line: 2 }],
  ['in a .tar', { 'tests/repo.tar': tar(noted) }, { path: 'tests/repo.tar/src/notes.md', line: 2 }],
  ['far in a file', { 'tests/a': `${line.repeat(30_000)}${SECRET}` }, { path: 'tests/a', line: 30_001 }],
  ...[1024 * 1024 - 10, 1024 * 1024 + 64 * 1024].map((before): [string, ArchiveFiles, object] => [
    `${before} bytes into a line`,
    { 'tests/a': long(before) },
    { path: 'tests/a', line: 1 },
  ]),
  [
    'nobody knows where in a broken archive',
    { 'tests/repo.tar.gz': tgz(noted).subarray(0, 60) },
    { path: 'tests/repo.tar.gz', detail: expect.stringContaining('cannot be scanned') },
  ],
  [
    'nobody knows where in a bomb',
    { 'tests/repo.tar.gz': tgz({ name: 'zeros', content: Buffer.alloc(16 * 1024 * 1024) }) },
    { path: 'tests/repo.tar.gz', detail: expect.stringContaining('cannot be scanned') },
  ],
])('a secret %s is found before anything is published', async (_, files, finding) => {
  const lab = await openReleaseLab(app, (task) => (task === 'two' ? files : {}))
  await lab.ran({ id: A, cells: 'pppppp' })
  const answer = await lab.publishAll({ publishTasks: true })
  expect(answer).toMatchObject({
    status: 422,
    body: { code: 'secrets_found', findings: [{ task: 'two', ...finding }] },
  })
  expect(answer.text).not.toContain(SECRET)
})

test('an archive without secrets is published', async () => {
  const clean = tgz({ name: 'src', type: '5' }, { name: 'src/a', content: 'first' }, { name: 'empty' })
  const lab = await openReleaseLab(app, (task) => (task === 'two' ? { 'environment/repo.tar.gz': clean } : {}))
  await lab.ran({ id: A, cells: 'pppppp' })
  expect((await lab.publishAll({ publishTasks: true })).status).toBe(201)
})
