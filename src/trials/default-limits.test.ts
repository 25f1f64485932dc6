import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inSandboxes } from '../../test/support/trials/in-sandboxes.ts'
import { IMAGE, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

/** Uses a little more than the default, then stops, so that a sandbox without limits does no harm. */
const TOO_MUCH_MB = DEFAULT_LIMITS.memoryMb + 256
const BOMB = `perl -e 'my $kept = "x" x (${TOO_MUCH_MB} << 20); print "took all"'`
const SHM = `head -c ${(DEFAULT_LIMITS.shmMb + 16) << 20} /dev/zero > /dev/shm/file || exit 7`

inSandboxes(({ runner }) => {
  const write = (name: string, files: Record<string, string>) => writeTask(join(runner.folder, name), files)

  test('an agent of a task without declared memory ends at the default limit, and is verified', async () => {
    const record = await runner.run(
      write('agent', { 'task.toml': taskToml({ agentSec: 100 }) }),
      createCommandHarness(`echo hello > hello.txt; ${BOMB}`),
    )
    expect(record).toMatchObject({ state: 'passed', class: 'limit', limit: 'memory', reward: 1 })
    expect(record.resources).toEqual({
      ...{ cpus: DEFAULT_LIMITS.cpus, memoryMb: DEFAULT_LIMITS.memoryMb, diskMb: DEFAULT_LIMITS.diskMb },
    })
  }, 300_000)

  test('shared memory has its own limit', async () => {
    const record = await runner.run(write('shm', {}), createCommandHarness(`echo hello > hello.txt; ${SHM}`))
    expect(record).toMatchObject({ state: 'passed', class: 'agent_exit', reward: 1, steps: [{ agent: { code: 7 } }] })
  }, 300_000)

  test('a verifier that exceeds the default limit gives no verdict', async () => {
    const task = write('verifier', {
      'task.toml': taskToml().replace('[verifier]\ntimeout_sec = 20', '[verifier]\ntimeout_sec = 100'),
      'tests/test.sh': `#!/bin/bash\n${BOMB}\nexit $?\n`,
    })
    const record = await runner.run(task, createCommandHarness('true'))
    expect(record).toMatchObject({ state: 'errored', class: 'verifier_error' })
    expect(record.error).toMatch(/limit: memory/)
  }, 300_000)

  test('files that an agent writes to a volume count towards its disk limit', async () => {
    const compose = `services:\n  main:\n    image: ${IMAGE}\n    volumes: ["data:/data"]\nvolumes:\n  data:\n`
    const task = write('volume', {
      'task.toml': taskToml({ agentSec: 60, environment: 'storage_mb = 20' }),
      'environment/docker-compose.yaml': compose,
    })
    const record = await runner.run(task, createCommandHarness('head -c 60M /dev/zero > /data/big; sleep 60'))
    expect(record).toMatchObject({ state: 'failed', class: 'limit', limit: 'disk', reward: 0 })
  }, 300_000)

  test('a sidecar that exceeds the default limit ends alone', async () => {
    const task = write('service', {
      'task.toml': taskToml({ agentSec: 100 }, null),
      'environment/Dockerfile': `FROM ${IMAGE}\n`,
      'environment/docker-compose.yaml': `services:
  main:
    volumes: ["shared:/srv/shared"]
  greedy:
    image: ${IMAGE}
    command: ["sh", "/greedy/run.sh"]
    volumes: ["shared:/srv/shared", "./greedy:/greedy:ro"]
volumes:
  shared:
`,
      'environment/greedy/run.sh': `${BOMB}\n: > /srv/shared/over\nexit 9\n`,
    })
    const wait = 'until [ -e /srv/shared/over ]; do sleep 0.2; done; echo hello > hello.txt'
    const record = await runner.run(task, createCommandHarness(wait))
    expect(record).toMatchObject({ state: 'passed', reward: 1 })
    expect(record.sidecars).toMatchObject([{ name: 'greedy', exit: { code: 9, limit: 'memory' } }])
  }, 300_000)

  test('a build that exceeds the default limit fails with that reason', async () => {
    const task = write('build', {
      'task.toml': taskToml({}, null),
      'environment/Dockerfile': `FROM ${IMAGE}\nCOPY bomb.sh /\nRUN sh /bomb.sh && touch /survived\n`,
      'environment/bomb.sh': BOMB,
    })
    const record = await runner.run(task, createCommandHarness('true'))
    expect(record).toMatchObject({ state: 'errored', class: 'sandbox_error' })
    expect(record.error).not.toContain('took all')
  }, 300_000)
})
