import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay } from '../test/support/assay-command.ts'
import { openComparisonLab } from '../test/support/comparisons.ts'
import { tgz } from '../test/support/harbor/raw-tar.ts'
import { listenOnLoopback } from '../test/support/loopback-servers.ts'

let app: TestApp
let comparisonId: string
let folder: string
beforeAll(async () => {
  app = await testApp()
  const lab = await openComparisonLab(app)
  comparisonId = (await lab.create()).body.id
  await lab.work()
})
afterAll(() => app[Symbol.asyncDispose]())
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-hostile-'))
  return () => rm(folder, { recursive: true })
})

const run = (url: string, ...args: string[]) => assay(args, { env: { ASSAY_URL: url, ASSAY_KEY: app.adminKey } })

/** Starts a server that answers as the service does, with a changed text. */
const listenTampering = (tamper: (text: string) => string) =>
  listenOnLoopback(async ({ url = '', headers }, response) => {
    const answer = await fetch(`${app.url}${url}`, { headers: { authorization: headers.authorization ?? '' } })
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    response.end(tamper(await answer.text()))
  })

const UUID = /"id":"[0-9a-f-]{36}","task"/g

test.each([
  [
    'the id of a trial in pages',
    ['--html', '--output'],
    (text: string) => text.replaceAll(UUID, '"id":"../../escaped","task"'),
  ],
  [
    'the id of a trial in a job folder',
    ['--harbor'],
    (text: string) => text.replaceAll(UUID, '"id":"/../../escaped","task"'),
  ],
  [
    'the time of a comparison in a log',
    ['--inspect'],
    (text: string) => text.replaceAll(/"createdAt":"[^"]*"/g, '"createdAt":"../../escaped"'),
  ],
])('%s does not lead out of the exported folder', async (_, flags, tamper) => {
  using server = await listenTampering(tamper)
  const ran = await run(
    server.url,
    'comparisons',
    'export',
    'assay/quick',
    comparisonId,
    ...flags,
    join(folder, 'a/b/c'),
  )
  expect(ran.err).toContain('not a file name')
  expect(ran.code).not.toBe(0)
  const found = await readdir(folder, { recursive: true })
  expect(found.filter((path) => path.includes('escaped'))).toEqual([])
})

test('an exported comparison of an honest service is complete', async () => {
  for (const flags of [['--html', '--output'], ['--harbor'], ['--inspect']])
    expect(
      await run(app.url, 'comparisons', 'export', 'assay/quick', comparisonId, ...flags, join(folder, flags[0] ?? '')),
    ).toMatchObject({ code: 0 })
})

/** Answers like a service with one approved task. */
const serveTask =
  (taskId: string, archive: Buffer): RequestListener =>
  ({ url = '' }, response) => {
    if (url.includes('archive')) return void response.end(archive)
    response.setHeader('content-type', 'application/json')
    if (url.endsWith('/tasks')) return void response.end(JSON.stringify({ tasks: [{ taskId, decision: 'approved' }] }))
    response.end(JSON.stringify({ org: 'lab', permission: 'admin' }))
  }

const ARCHIVE = tgz({ name: 'solve.sh', content: 'echo hello', mode: 0o6755 })

const exportTasks = (url: string, to: string) =>
  run(url, 'batches', 'export', 'batch-0198c0de-0000-7000-8000-000000000000', '--repo', 'lab/demo', '--to', to)

test.each(['../escaped', '/escaped', 'a/../../escaped', '..', '.', ''])(
  'a task called "%s" is not exported',
  async (name) => {
    const taskId = name === '/escaped' ? join(folder, name) : name
    using server = await listenOnLoopback(serveTask(taskId, ARCHIVE))
    const ran = await exportTasks(server.url, join(folder, 'tasks'))
    expect(ran.err).toContain('not a file name')
    expect(existsSync(join(folder, 'escaped'))).toBe(false)
    expect(await readdir(dirname(folder))).not.toContain('escaped')
  },
)

test('files of an exported task run with the rights of nobody else', async () => {
  using server = await listenOnLoopback(serveTask('hello', ARCHIVE))
  expect(await exportTasks(server.url, join(folder, 'tasks'))).toMatchObject({ code: 0 })
  const { mode } = await stat(join(folder, 'tasks/hello/solve.sh'))
  expect(mode & 0o7000).toBe(0)
})
