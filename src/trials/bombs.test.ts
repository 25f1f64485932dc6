import { statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

let runner: Awaited<ReturnType<typeof openTrialRunner>>
let tasks: Record<'alone' | 'inside', string>

const LIMITS = 'memory_mb = 32\nstorage_mb = 64\n'
/** Limits the number of processes through the compose file. */
const COMPOSE = `services:\n  main:\n    image: ${IMAGE}\n    pids_limit: 40\n`

beforeAll(async () => {
  runner = await openTrialRunner('bwrap')
  const write = (name: string, end: string) =>
    writeTask(join(runner.folder, name), {
      'task.toml': taskToml({ agentSec: 10, environment: LIMITS, end }),
      'environment/docker-compose.yaml': COMPOSE,
    })
  tasks = { alone: write('alone', ''), inside: write('inside', '[environment.healthcheck]\ncommand = "true"\n') }
}, 600_000)
afterAll(async () => runner[Symbol.asyncDispose]())

const FORKS = `perl -e 'for (1 .. 100) { my $p = fork(); exit 9 unless defined $p; if (!$p) { sleep 20; exit } }'`
/** Bounded at twice the limit, so that a sandbox without limits does no harm. */
const BOMBS = [
  ['fork', FORKS, 'limit', 'pids'],
  ['memory', `perl -e '$x = "a" x 192e6'`, 'limit', 'memory'],
  ['disk', 'dd if=/dev/zero of=/srv/big bs=1M count=128 2> /dev/null || exit 4; sleep 5', 'limit', 'disk'],
  ['time', 'trap "" TERM; while :; do sleep 1; done', 'agent_timeout', 'seconds'],
  ['output', 'head -c 80000000 /dev/zero', 'limit', 'output'],
] as const

const CASES = (['alone', 'inside'] as const).flatMap((place) => BOMBS.map((bomb) => [place, ...bomb] as const))

test.each(CASES)(
  '%s: a %s bomb ends with its limit, and is still verified',
  async (place, _, line, kind, limit) => {
    const record = await runner.run(tasks[place], createCommandHarness(line))
    expect(record).toMatchObject({ state: 'failed', class: kind, limit, reward: 0 })
    expect(statSync(join(runner.folder, 'agent-1.log')).size).toBeLessThanOrEqual(64 * 1024 * 1024)
  },
  60_000,
)

test('a process that opens too many files is refused, and the trial continues', async () => {
  const line = `perl -e 'my @f; while (open my $f, "<", "/dev/null") { push @f, $f; exit 3 if @f > 2e6 } exit 24' ; echo $? > hello.txt`
  const record = await runner.run(tasks.alone, createCommandHarness(line))
  expect(record).toMatchObject({ state: 'failed', reward: 0 })
}, 60_000)

test('a bomb in the tests is a verifier error and never a zero', async () => {
  const task = writeTask(join(runner.folder, 'verifier bomb'), {
    'task.toml': taskToml({ environment: LIMITS }),
    'environment/docker-compose.yaml': COMPOSE,
    'tests/test.sh': `#!/bin/bash\n${FORKS}\nexit 9\n`,
  })
  const record = await runner.run(task, createCommandHarness('true'))
  expect(record).toMatchObject({ state: 'errored', class: 'verifier_error', reward: null })
  expect(record.error).toMatch(/limit: pids/)
})
