import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { buildArchive, smallTask } from '../test/support/archives.ts'
import { assay } from '../test/support/assay-command.ts'
import { createScriptedValidator, openImportLab, VALID } from '../test/support/batches.ts'
import { temporaryFolder } from '../test/support/harbor/folders.ts'

let app: TestApp
let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeAll(async () => {
  app = await testApp()
  folder = await temporaryFolder()
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

const run = (...args: string[]) => assay(args, { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey } })

function writeTasks(path: string, tasks: Record<string, Record<string, string>>): string {
  for (const [task, files] of Object.entries(tasks)) {
    for (const [file, content] of Object.entries(files)) {
      const target = join(path, task, file)
      mkdirSync(dirname(target), { recursive: true })
      writeFileSync(target, content)
    }
  }
  return path
}

test('a repository is connected, listed, shown and removed', async () => {
  const connected = await run('repos', 'connect', 'lab/shown', '--git', 'https://git.example.org/x.git', '--public')
  expect(connected.code).toBe(0)
  expect(connected.err).toBe(
    'lab/shown is connected. To see its pull requests: assay batches preview --repo lab/shown\nIts id:\n',
  )
  expect(Number(connected.out.trim())).toBeGreaterThanOrEqual(2 ** 40)
  expect((await run('repos', 'list')).out).toMatch(/lab\/shown +git +public/)
  expect((await run('repos', 'show', 'lab/shown')).out).toContain('https://git.example.org/x.git')
  expect(JSON.parse((await run('repos', 'show', 'lab/shown', '--json')).out)).toMatchObject({ name: 'shown' })
  expect((await run('repos', 'remove', 'lab/shown')).code).toBe(0)
  expect((await run('repos', 'show', 'lab/shown')).code).toBe(1)
  expect((await run('repos', 'show', 'shown')).code).toBe(2)
  expect((await run('repos', 'connect', 'lab/shown', '--git', 'nonsense')).err).toMatch(/^error: --git: /)
})

test('options and create name a missing model or sandbox and the fix', async () => {
  const lab = await openImportLab(app)
  const repo = ['--repo', `lab/${lab.place.name}`]
  const options = await run('batches', 'options', ...repo)
  expect(options.err).toContain(
    'No credential gives access to a model. Add one: assay credentials add model <provider> --name <name>\n',
  )
  const created = await run('batches', 'create', '--easy', '1', ...repo)
  expect(created).toMatchObject({ code: 2, out: '' })
  expect(created.err).toContain('assay credentials add model')
})

test('a folder or an archive is imported, and its tasks are approved and declined', async () => {
  const lab = await openImportLab(app)
  const repo = ['--repo', `lab/${lab.place.name}`]
  const tasks = { hello: smallTask(), bye: smallTask(), bad: { 'task.toml': 'no' } }
  const path = writeTasks(join(folder.path, 'tasks'), { ...tasks, '.git': { config: 'x' } })
  const archive = join(folder.path, 'tasks.tar.gz')
  writeFileSync(archive, buildArchive(tasks))
  for (const source of [path, archive]) {
    const imported = await run('batches', 'import', source, ...repo)
    expect(imported.code, imported.err).toBe(0)
    const runId = imported.out.trim()
    expect(imported.err).toContain(`To watch: assay batches watch ${runId} --repo lab/`)
    await lab.work()
    const list = await run('batches', 'tasks', runId, ...repo)
    expect(list.err).toContain('completed')
    expect(list.out).toMatch(/bad +rejected: invalid_task/)
    expect((await run('batches', 'approve', runId, '--all', ...repo)).err).toContain('hello is approved.')
    expect((await run('batches', 'decline', runId, 'bye', '--note', 'dull', ...repo)).code).toBe(0)
    expect((await lab.read(runId)).counts).toMatchObject({ discovered: 3, approved: 1, declined: 1 })
    expect((await run('batches', 'approve', runId, 'bad', ...repo)).code).toBe(1)
    expect((await run('batches', 'approve', runId, 'nothing', ...repo)).code).toBe(2)
    expect((await run('batches', 'approve', runId, ...repo)).code).toBe(2)
  }
  expect((await run('batches', 'import', join(folder.path, 'nowhere'), ...repo)).code).toBe(2)
  const notes = join(folder.path, 'notes.md')
  writeFileSync(notes, '# Notes\n')
  expect((await run('batches', 'import', notes, ...repo)).err).toBe(
    `error: ${notes} is not a .tar.gz. Use a gzipped tar archive or a folder.\n`,
  )
  expect((await run('batches', 'tasks', 'nonsense', ...repo)).code).toBe(2)
})

test('the end of a batch states why tasks were rejected, and a batch without a usable task fails', async () => {
  const lab = await openImportLab(app)
  const repo = ['--repo', `lab/${lab.place.name}`]
  const bad = { 'task.toml': 'no' }
  const some = await lab.imported({ hello: smallTask(), bad })
  const watched = await run('batches', 'watch', some.runId, ...repo)
  expect([watched.code, watched.err]).toEqual([0, expect.stringMatching(/^bad was rejected: invalid_task\. \S/m)])
  expect(watched.out).toMatch(/2\/2 completed/)
  expect(watched.err).toContain('To review the tasks')

  const none = await lab.imported({ bad })
  const failed = await run('batches', 'watch', none.runId, ...repo)
  expect(failed.code).toBe(1)
  expect(failed.err).toMatch(/^bad was rejected: invalid_task\. \S/m)
  expect(failed.err).toContain('The batch is completed. No task is ready.')
})

test('lists a ready task with warnings and does not approve it with --all', async () => {
  const calibration = 'calibration' in VALID ? VALID.calibration : undefined
  const weak = {
    ...VALID,
    calibration: { ...calibration, strength: 'weak', winners: ['reward-daemon'] },
  } as typeof VALID
  const lab = await openImportLab(
    app,
    createScriptedValidator(() => weak),
  )
  const { runId } = await lab.imported({ hello: smallTask() })
  const named = [runId, '--repo', `lab/${lab.place.name}`]
  const refused = await run('batches', 'approve', ...named, '--all')
  expect(refused).toMatchObject({ code: 2, out: '' })
  expect(refused.err).toBe(`These tasks are ready but have warnings that must be reviewed first:
  hello: Known cheats score: reward-daemon.
Review them with \`assay batches review ${named.join(' ')}\`. To approve one despite its warnings, give its id alone.
error: Every task that is ready has warnings, so none was approved.
`)
})
