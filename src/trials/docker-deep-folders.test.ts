import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { hasPart } from '../../test/support/parts.ts'
import { openTrialRunner, writeTask } from '../../test/support/trials/trial-runner.ts'
import { createCommandHarness } from '../harnesses/reference.ts'
import { connectDocker } from '../sandboxes/docker/client.ts'

/** Files that the engine may open, fewer than the folders that the agent nests. */
const OPEN_FILES_MAX = 1500
const NEST = `perl -e 'for (1 .. 3000) { mkdir "d" or die $!; chdir "d" or die $! }'`

test.skipIf(!hasPart('docker'))(
  'a container with folders nested deeper than the engine can open files is removed',
  async () => {
    let socket = ''
    await using runner = await openTrialRunner('docker', {
      routeTo: async (engine) => {
        socket = engine
        return engine
      },
    })
    const engine = readFileSync(join(dirname(socket), 'pid'), 'utf8').trim()
    execFileSync('prlimit', ['--pid', engine, `--nofile=${OPEN_FILES_MAX}:`])
    const record = await runner.run(writeTask(join(runner.folder, 'task')), createCommandHarness(NEST))
    expect(record).toMatchObject({ state: 'failed', class: 'verified', reward: 0 })
    const docker = connectDocker({ kind: 'unix', path: socket })
    expect(await docker.call('GET', '/containers/json', { query: { all: true } })).toEqual([])
    docker.close()
  },
  300_000,
)
