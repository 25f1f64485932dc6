import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { importing } from '../test/support/batches.ts'
import { comparingInRepository } from '../test/support/comparisons.ts'
import { assay } from './test-support.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const run = (...args: string[]) => assay(args, { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey } })

test('approved tasks of a repository are compared, all of them or those that are named', async () => {
  const lab = await comparingInRepository(app)
  const repo = ['--repo', `lab/${lab.params.name}`]
  const all = await run('compare', ...repo, '--sandbox', 'local', '--detach')
  expect(all.code, all.err).toBe(0)
  const tasks = ['--task', `${lab.runId}/two`, '--task', `${lab.runId}/one`]
  const some = (await run('compare', ...repo, ...tasks, '--sandbox', 'local', '--detach')).out.trim()
  await lab.work()
  const watched = await run('comparisons', 'watch', ...repo, all.out.trim())
  expect(watched.out).toMatch(/^reference\|oracle\|none +5\/5 +100\.0 %/m)
  const shown = JSON.parse((await run('--json', 'comparisons', 'show', some, ...repo)).out)
  expect(shown).toMatchObject({ scope: { kind: 'repository', ...lab.params }, trials: { total: 4, passed: 2 } })
  expect((await run('comparisons', 'list', ...repo)).out).toMatch(new RegExp(`^${some} +completed +4/4`, 'm'))
  expect((await run('comparisons', 'resume', ...repo, some)).code).toBe(0)
  expect((await run('comparisons', 'cancel', ...repo, some)).code).toBe(0)

  const unknown = await run('compare', ...repo, '--task', `${lab.runId}/none`, '--sandbox', 'local')
  expect([unknown.code, unknown.err]).toEqual([1, expect.stringMatching(/^error: --task: /)])
})

test('a repository without an approved task is told so', async () => {
  const { place } = await importing(app)
  const { code, err } = await run('compare', '--repo', `lab/${place.name}`, '--sandbox', 'local')
  expect([code, err]).toEqual([2, expect.stringContaining('No task of lab/')])
})
