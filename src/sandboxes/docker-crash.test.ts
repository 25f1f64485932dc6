import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseImages, type Dockerd, startDockerd } from '../../test/support/dockerd.ts'
import { baseImage, findLeftovers } from '../../test/support/sandboxes/docker-subject.ts'
import { plainSpec } from '../../test/support/sandboxes/plain-spec.ts'
import { processesNaming } from '../../test/support/sandboxes/processes.ts'
import { createLog } from '../platform/log.ts'
import { createDockerProvider } from './docker.ts'
import type { SandboxProvider, SandboxSpec } from './sandbox.ts'

vi.setConfig({ testTimeout: 60_000 })

const CLIENT = fileURLToPath(new URL('../../test/support/sandboxes/dying-docker-client.ts', import.meta.url))
const STEPS = ['group', 'created', 'filled', 'started', 'ports', 'running', 'exited', 'snapshot', 'removing']
const INSTALLATION = 'crashing'

let dataFolder: string
let dockerd: Dockerd

const provider = (installation = INSTALLATION): SandboxProvider => {
  const connection = { kind: 'unix' as const, path: dockerd.socket }
  return createDockerProvider({ connection, installation, dataFolder, log: createLog('silent') })
}

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-crash-'))
  dockerd = await startDockerd({ images: await baseImages() })
}, 600_000)

afterAll(async () => {
  await dockerd[Symbol.asyncDispose]()
  await rm(dataFolder, { recursive: true })
})

async function dieAt(step: string, id: string, seconds = 60): Promise<string | null> {
  const args = [CLIENT, dataFolder, dockerd.socket, INSTALLATION, id, step, String(seconds)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [, signal] = await once(child, 'exit')
  return signal
}

const snapshots = async (): Promise<unknown[]> =>
  dockerd.docker.call('GET', '/images/json', {
    query: { all: true, filters: JSON.stringify({ label: [`assay.installation=${INSTALLATION}`] }) },
  })

test.each(STEPS)('a process that is killed at the step %s leaves nothing after the next start', async (step) => {
  const id = `crash-${randomUUID()}`
  expect(await dieAt(step, id)).toBe('SIGKILL')
  expect(await findLeftovers(dockerd.docker, dataFolder, id)).not.toEqual([])

  const reaped = await provider().reap()

  expect(reaped).toBe(step === 'group' ? 0 : 1)
  expect(await findLeftovers(dockerd.docker, dataFolder, id)).toEqual([])
  expect(await snapshots()).toEqual([])
  expect(await processesNaming(id)).toEqual([])
})

test('a sandbox ends at its deadline even if its engine process has died', async () => {
  const id = `alone-${randomUUID()}`
  await dieAt('running', id, 2)
  const runs = () => processesNaming(`: ${id}; sleep`)
  expect(await runs()).not.toEqual([])
  await vi.waitFor(async () => expect(await runs()).toEqual([]), { timeout: 30_000, interval: 500 })
  await provider().reap()
})

const spec = async (): Promise<SandboxSpec> =>
  plainSpec(await baseImage(provider()), ['sh', '-c', 'sleep 1; exit 5'], join(dataFolder, 'output'))

test('cleanup does not remove a sandbox whose process is alive', async () => {
  const sandbox = await provider().start(await spec())
  expect(await provider().reap()).toBe(0)
  expect((await sandbox.exited).code).toBe(5)
  await sandbox.remove()
})

test('cleanup does not remove sandboxes of another installation', async () => {
  const id = `crash-${randomUUID()}`
  await dieAt('running', id)
  expect(await provider('other').reap()).toBe(0)
  expect(await processesNaming(id)).not.toEqual([])
  expect(await provider().reap()).toBe(1)
})
