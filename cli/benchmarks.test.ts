import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay, hasTerminal, onTerminal } from '../test/support/assay-command.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp({ ASSAY_REGISTRIES: 'samples' })
})
afterAll(async () => app[Symbol.asyncDispose]())

const service = () => ({ ASSAY_URL: app.url, ASSAY_KEY: app.adminKey })
/** No service: the database itself. */
const folder = () => ({ DATABASE_URL: app.database.url, ASSAY_REGISTRIES: 'samples' })

test.each([
  ['a service', () => ({ env: service(), flags: [] as string[] })],
  ['a data folder', () => ({ env: folder(), flags: ['--data', app.tools.config.dataFolder] })],
])('on %s, a benchmark is added, listed, shown and removed', async (_place, given) => {
  const { env, flags } = given()
  const benchmarks = (...args: string[]) => assay(['benchmarks', ...args, ...flags], { env })
  const added = await benchmarks('add', 'assay/quick')
  expect(added).toMatchObject({ code: 0, err: 'assay/quick added: 5 tasks, all checked.\n' })
  expect(added.out).toMatch(/^sha256:[0-9a-f]{64}\n$/)
  expect((await benchmarks('list')).out).toMatch(/^BENCHMARK +VERSION +TASKS .*\nassay\/quick /)
  expect((await benchmarks('show', 'assay/quick')).out).toContain(added.out.trim())
  const json = await assay(['benchmarks', 'show', 'assay/quick', '--json', ...flags], { env })
  expect(JSON.parse(json.out).taskList).toHaveLength(5)
  expect(await benchmarks('remove', 'assay/quick')).toMatchObject({ code: 0, err: 'Removed assay/quick.\n' })
  expect(await benchmarks('remove', 'assay/quick')).toMatchObject({ code: 1 })
  expect(await benchmarks('add', 'assay/nothing')).toMatchObject({ code: 1, out: '' })
})

test('the files of a task are listed, and one is printed', async () => {
  await assay(['benchmarks', 'add', 'assay/quick'], { env: service() })
  const files = (...args: string[]) =>
    assay(['benchmarks', 'files', 'assay/quick', 'assay/greet-in-bash', ...args], { env: service() })
  expect((await files()).out).toMatch(/^PATH +SIZE\n/)
  expect((await files()).out).toMatch(/^instruction\.md +\d+/m)
  expect((await files('instruction.md')).out).toBe(readFileSync('samples/tasks/greet-in-bash/instruction.md', 'utf8'))
  expect(await files('nothing')).toMatchObject({ code: 1, out: '' })
  await assay(['benchmarks', 'remove', 'assay/quick'], { env: service() })
})

test('an invalid name is wrong usage', async () => {
  expect(await assay(['benchmarks', 'show', 'quick'], { env: service() })).toMatchObject({ code: 2 })
  expect((await assay(['benchmarks', 'add', 'assay/quick@9'], { env: service() })).err).toMatch(
    /^error: The registry samples has assay\/quick, but no version 9\. It has 1\.0\. \(/,
  )
  expect((await assay(['benchmarks', 'add', 'quick'], { env: service() })).err).toMatch(/^error: <reference>: /)
})

test.skipIf(!hasTerminal)('shows a progress bar on a terminal during the download', async () => {
  const { code, out } = await onTerminal(['benchmarks', 'add', 'assay/quick'], service(), () => undefined)
  expect(code).toBe(0)
  expect(out).toMatch(/\[=+ *\] \d\/5 tasks/)
})

test.skipIf(!hasTerminal)('asks before a removal on a terminal unless --yes is given', async () => {
  await assay(['benchmarks', 'add', 'assay/quick'], { env: service() })
  let isAsked = false
  const kept = await onTerminal(['benchmarks', 'remove', 'assay/quick'], service(), (shown) => {
    if (isAsked || !shown.includes('Its comparisons stay.')) return undefined
    isAsked = true
    return '\r'
  })
  expect(kept.code, kept.out).toBe(130)
  const removed = await onTerminal(['benchmarks', 'remove', 'assay/quick', '--yes'], service(), () => undefined)
  expect([removed.code, removed.out]).toEqual([0, expect.stringContaining('Removed assay/quick.')])
})
