import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay, scratchFolder } from '../test/support/assay-command.ts'
import { baseRootfs } from '../test/support/base-image.ts'
import { ANSWER_TASK } from '../test/support/trials/attacked-tasks.ts'
import { writeTask } from '../test/support/trials/trial-runner.ts'

const folder = scratchFolder()
const data = join(folder.path, 'data')
beforeAll(async () => {
  const image = ['--name', 'debian:bookworm-slim', '--data', data]
  expect(await assay(['images', 'import', await baseRootfs(), ...image])).toMatchObject({ code: 0 })
}, 600_000)
afterAll(folder.remove)

const calibrate = (task: string, ...options: string[]) => assay(['calibrate', task, '--data', data, ...options])

test('reports a task whose tests load the code as weak, with the successful cheats', async () => {
  const ran = await calibrate(writeTask(join(folder.path, 'answer'), ANSWER_TASK))
  expect(ran.code, ran.err).toBe(0)
  expect(ran.out).toMatch(/^verify mode +workspace$/m)
  expect(ran.out).toMatch(/^strength +weak: exit-zero, equals-everything, forged-report.* won$/m)
  expect(ran.err).toMatch(/passes without doing the work\. A grader .*docs\/verifier-strength\.md/)
  expect(ran.out).toMatch(/^exit-zero +won +\S/m)
  expect(ran.out).toMatch(/^preseed +lost +\S/m)
  expect(ran.out).toMatch(/^conftest +does not apply +\S/m)
})

test('--json prints the calibration, --verbose prints each trial', async () => {
  const ran = await calibrate(writeTask(join(folder.path, 'hello')), '--json', '--verbose')
  expect(JSON.parse(ran.out)).toMatchObject({
    task: { name: 'assay/hello', digest: expect.stringMatching(/^sha256:/) },
    kind: 'fit',
    mode: 'workspace',
    strength: 'standard',
    agentNetwork: 'declared',
    verifierNetwork: 'declared',
    winners: [],
    attempts: [{ mode: 'workspace', oracle: { state: 'passed', reward: 1 }, nop: { state: 'failed', reward: 0 } }],
  })
  expect(ran.err).toMatch(
    /oracle in mode workspace\n.*nop in mode workspace\n.*Listing the files that the reference solution changes\n.*cheat preseed\n/,
  )
})

test('reports a task that no solution passes as unfit', async () => {
  const wrong = writeTask(join(folder.path, 'wrong'), { 'solution/solve.sh': '#!/bin/sh\ntrue\n' })
  const ran = await calibrate(wrong, '--json')
  expect(ran).toMatchObject({ code: 1, err: expect.stringMatching(/The reference solution does not pass/) })
  expect(JSON.parse(ran.out)).toMatchObject({ kind: 'unfit' })
})

test.each([
  [['--sandbox', 'cloud'], /There is no sandbox cloud\. Known: auto, docker, kubernetes, local/],
  [['--env', 'NOVALUE'], /--env must have the form NAME=VALUE/],
])('%j is wrong use', async (options, sentence) => {
  const ran = await calibrate(writeTask(join(folder.path, 'any')), ...options)
  expect(ran).toMatchObject({ code: 2, out: '' })
  expect(ran.err).toMatch(sentence)
})
