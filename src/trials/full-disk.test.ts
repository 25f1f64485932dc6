import { spawnSync } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasPart } from '../../test/support/parts.ts'
import { mountSmallDisk } from '../../test/support/small-disk.ts'
import { openTrialRunner, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'

const ALL_INODES = `perl -e 'mkdir "/app/d"; for (1 .. 1e6) { open(my $f, ">", "/app/d/$_") or last }'; true`
const ALL_BYTES =
  'mkdir -p /logs/artifacts; head -c 200M /dev/zero > /logs/artifacts/big; cat /dev/zero > /app/big; true'

/** Takes all inodes and all space from outside of sandboxes. */
const FILL = `mkdir "$0"; cd "$0"; perl -e 'for (1 .. 1e6) { open(my $f, ">", $_) or last }'; cat /dev/zero > 1`

describe.skipIf(!hasPart('bwrap'))('on a small disk', () => {
  let disk: Awaited<ReturnType<typeof mountSmallDisk>>
  let runner: Awaited<ReturnType<typeof openTrialRunner>>
  let task: string
  beforeAll(async () => {
    disk = await mountSmallDisk(800, 30_000)
    runner = await openTrialRunner('bwrap', { parent: disk.path })
    task = writeTask(join(runner.folder, 'task'))
  }, 600_000)
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]()
    await disk?.[Symbol.asyncDispose]()
  }, 60_000)

  test.each([
    ['creates files until no inode is free', ALL_INODES],
    ['writes until no space is free', ALL_BYTES],
  ])(
    'an agent that %s scores 0',
    async (_what, line) => {
      const record = await runner.run(task, createCommandHarness(line))
      expect({ state: record.state, reward: record.reward, error: record.error }).toEqual({
        state: 'failed',
        reward: 0,
        error: null,
      })
    },
    120_000,
  )

  test('a trial is not scored if the disk is full without its files', async () => {
    const filled = join(disk.path, 'filled')
    const onPhase = (phase: string) => {
      if (phase === 'verify') spawnSync('sh', ['-c', FILL, filled])
    }
    const record = await runner.run(task, createCommandHarness('true'), 'workspace', { onPhase })
    await rm(filled, { recursive: true })
    expect(record).toMatchObject({ state: 'errored', class: 'sandbox_error', reward: null })
  }, 120_000)
})
