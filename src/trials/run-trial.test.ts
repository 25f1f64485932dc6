import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IMAGE, openTrialRunner, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness, nop, oracle } from '../harnesses/reference.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
let hello: string
beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
  hello = writeTask(join(runner.folder, 'hello'))
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

test('the oracle scores 1 and nop 0 in every mode', async () => {
  for (const mode of ['workspace', 'snapshot', 'shared-cold', 'shared-live'] as const) {
    expect(await runner.run(hello, oracle, mode)).toMatchObject({
      state: 'passed',
      class: 'verified',
      reward: 1,
      verifyMode: mode,
    })
    expect(await runner.run(hello, nop, mode)).toMatchObject({ state: 'failed', class: 'verified', reward: 0 })
  }
})

test('the output of the agent is recorded beside its log', async () => {
  await runner.run(hello, createCommandHarness('echo working; echo hello > hello.txt'))
  expect(runner.output('agent-1.log')).toBe('working\n')
  expect(runner.output('agent-1.cast')).toContain('"working\\r\\n"')
})

test('an agent that runs out of time is stopped, and its work is still verified', async () => {
  const toml = `schema_version = "1.4"\n[task]\nname = "a/b"\n[environment]\ndocker_image = "${IMAGE}"\nworkdir = "/app"\n[agent]\ntimeout_sec = 1\n`
  const task = writeTask(join(runner.folder, 'slow'), { 'task.toml': toml })
  const record = await runner.run(task, createCommandHarness('echo hello > hello.txt; trap "" TERM; sleep 60'))
  expect(record).toMatchObject({ state: 'passed', class: 'agent_timeout', limit: 'seconds' })
})

test('the work of an agent that exits with an error is verified', async () => {
  expect(await runner.run(hello, createCommandHarness('echo hello > hello.txt; exit 7'))).toMatchObject({
    state: 'passed',
    class: 'agent_exit',
  })
})

test.each([
  ['leaves nothing', '#!/bin/sh\nexit 0\n'],
  ['leaves a link', '#!/bin/sh\nln -s /proc/sys/net/ipv4/ip_forward /logs/verifier/reward.txt\n'],
  ['leaves a pipe', '#!/bin/sh\nmkfifo /logs/verifier/reward.txt\n'],
  ['leaves no number', '#!/bin/sh\necho NaN > /logs/verifier/reward.txt\n'],
  [
    'contradicts itself',
    '#!/bin/sh\necho 0 > /logs/verifier/reward.txt; echo \'{"reward": 1}\' > /logs/verifier/reward.json\n',
  ],
])('a verifier that %s is a verifier error', async (name, script) => {
  const task = writeTask(join(runner.folder, `verifier ${name}`), { 'tests/test.sh': script })
  const record = await runner.run(task, oracle)
  expect(record).toMatchObject({ state: 'errored', class: 'verifier_error', reward: null })
  expect(record.error).toBeTruthy()
})

test('the agent sees neither the tests nor the solution nor the name of the task', async () => {
  const line =
    'ls -d /tests /solution 2>/dev/null; env | grep -i hello; grep -rl "assay/hello" /proc/self/environ /app 2>/dev/null; exit 0'
  const record = await runner.run(hello, createCommandHarness(`[ -z "$(${line})" ] && echo hello > hello.txt`))
  expect(record).toMatchObject({ state: 'passed' })
})
