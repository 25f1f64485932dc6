import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay, scratchFolder } from '../test/support/assay-command.ts'
import { baseRootfs } from '../test/support/base-image.ts'
import { writeTask } from '../test/support/trials/trial-runner.ts'

const folder = scratchFolder()
const data = join(folder.path, 'data')
const task = join(folder.path, 'task')
beforeAll(async () => {
  writeTask(task)
  const imported = await assay([
    'images',
    'import',
    await baseRootfs(),
    '--name',
    'debian:bookworm-slim',
    '--data',
    data,
  ])
  expect(imported).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^debian:bookworm-slim sha256:[0-9a-f]{64}\n$/),
  })
}, 600_000)
afterAll(folder.remove)

const trial = (...options: string[]) => assay(['trial', task, '--data', data, ...options])

test('runs the reference solution and finds the strictest mode without server or database', async () => {
  const ran = await trial()
  expect(ran.code, ran.err).toBe(0)
  expect(ran.out).toMatch(/^result +passed \(verified\)$/m)
  expect(ran.out).toMatch(/^verify mode +workspace$/m)
  expect(ran.err.replaceAll(/^.* s so far\n/gm, '')).toMatch(
    /^Sandboxes are run by \S+ \(.*\)\.\nFinding the verify mode: oracle in mode workspace\nFinding the verify mode: nop in mode workspace\nThe trial: oracle in mode workspace\nprepare\nagent\nverify\n$/,
  )
})

test('--json prints the record', async () => {
  const { out } = await trial('--harness', 'nop', '--verify-mode', 'snapshot', '--json')
  expect(JSON.parse(out)).toMatchObject({
    task: { name: 'assay/hello', digest: expect.stringMatching(/^sha256:/) },
    harness: 'nop',
    state: 'failed',
    class: 'verified',
    reward: 0,
    verifyMode: 'snapshot',
    base: 'image',
    timings: {
      prepare: expect.any(Number),
      agent: expect.any(Number),
      verify: expect.any(Number),
      total: expect.any(Number),
    },
  })
})

test('--command runs a solution or a cheat', async () => {
  const tried = async (line: string) =>
    JSON.parse((await trial('--command', line, '--verify-mode', 'workspace', '--json')).out).state
  expect(await tried('echo hello > hello.txt')).toBe('passed')
  expect(await tried('mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt')).toBe('failed')
})

test('--verify-mode keeps a startup file in the working directory that the reference solution changes too', async () => {
  const home = writeTask(join(folder.path, 'home'), {
    'task.toml': '[environment]\ndocker_image = "debian:bookworm-slim"\nworkdir = "/home/dev"\n',
    'solution/solve.sh': '#!/bin/sh\necho "alias ll=ls" > .bashrc\n',
    'tests/test.sh':
      '#!/bin/sh\nmkdir -p /logs/verifier\nif grep -qx "alias ll=ls" /home/dev/.bashrc; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
  })
  const command = ['--command', 'echo "alias ll=ls" > .bashrc', '--verify-mode', 'workspace', '--json']
  const ran = await assay(['trial', home, '--data', data, ...command])
  expect(JSON.parse(ran.out)).toMatchObject({ state: 'passed', verifyMode: 'workspace' })
})

test('--expect decides the exit code; the output folder and the failed tests are printed', async () => {
  const nop = ['--harness', 'nop', '--verify-mode', 'workspace']
  const failed = await trial(...nop, '--expect', 'pass')
  expect(failed.code).toBe(1)
  expect(failed.err).toContain('The trial failed, but --expect pass was given.')
  expect(failed.out).toMatch(new RegExp(`^output +${join(data, 'trials')}$`, 'm'))
  expect(failed.out).toMatch(/^why +The tests of the task gave the reward 0\.$/m)
  expect((await trial(...nop, '--expect', 'fail')).code).toBe(0)
  expect((await trial(...nop, '--expect', 'maybe')).code).toBe(2)
  const tests = '#!/bin/sh\necho "not ok 1 - says hello"\nmkdir -p /logs/verifier; echo 0 > /logs/verifier/reward.txt\n'
  const named = writeTask(join(folder.path, 'named'), { 'tests/test.sh': tests })
  const ran = await assay(['trial', named, '--data', data, ...nop])
  expect(ran.out).toMatch(/^why +1 test failed: says hello\.$/m)
  expect(ran.out).toMatch(/^failed tests\n {2}says hello$/m)
})

test.each([
  [['--harness', 'nobody'], 2, /There is no harness nobody\. Known: oracle, nop, /],
  [['--sandbox', 'cloud'], 2, /There is no sandbox cloud\. Known: auto, docker, kubernetes, local/],
  [['--verify-mode', 'trust'], 2, /There is no verify mode trust/],
  [['--model', 'anthropic/claude-opus-5-5'], 2, /oracle uses no model\. Omit --model/],
  [['--env', 'NOVALUE'], 2, /--env must have the form NAME=VALUE/],
  [
    ['--harness', 'claude-code', '--model', 'anthropic/claude-opus-5-5'],
    2,
    /No key for anthropic.*Set ANTHROPIC_API_KEY\./,
  ],
])('%j is wrong use', async (options, code, sentence) => {
  const ran = await trial(...options)
  expect(ran).toMatchObject({ code, out: '' })
  expect(ran.err).toMatch(sentence)
})

test('lists the problems of an invalid task, and how to import a missing image', async () => {
  const broken = writeTask(join(folder.path, 'broken'), { 'task.toml': 'schema_version = 7\n' })
  expect((await assay(['trial', broken, '--data', data])).code).toBe(1)
  const toml = '[environment]\ndocker_image = "nobody/knows:this"\nworkdir = "/app"\n'
  const lost = writeTask(join(folder.path, 'lost'), { 'task.toml': toml })
  const ran = await assay(['trial', lost, '--data', data, '--verify-mode', 'workspace'])
  expect(ran.code).toBe(3)
  expect(ran.err).toMatch(/assay images import .*ASSAY_ALLOW_HOST_BASE=1/)
})

test('reports a missing folder, and a file instead of a folder', async () => {
  expect((await assay(['trial', '/nope', '--data', data])).err).toBe('error: /nope does not exist.\n')
  const file = join(task, 'task.toml')
  expect((await assay(['trial', file, '--data', data])).err).toBe(
    `error: ${file} is a file. Name the folder of a task.\n`,
  )
})

test('reports a task that no solution passes as unfit', async () => {
  const wrong = writeTask(join(folder.path, 'wrong'), { 'solution/solve.sh': '#!/bin/sh\ntrue\n' })
  const ran = await assay(['trial', wrong, '--data', data])
  expect(ran).toMatchObject({ code: 1, err: expect.stringMatching(/The reference solution does not pass/) })
})
