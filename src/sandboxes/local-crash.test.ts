import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { findLeftovers } from '../../test/support/sandboxes/local-subject.ts'
import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import { createLog } from '../platform/log.ts'
import { createLayer, openStore } from './local/image-store.ts'
import { createLocalProvider } from './local.ts'
import type { Image } from './sandbox.ts'

vi.setConfig({ testTimeout: 60_000 })

const ENGINE = fileURLToPath(new URL('../../test/support/sandboxes/dying-engine.ts', import.meta.url))
const IMPORT = fileURLToPath(new URL('../../test/support/sandboxes/dying-import.ts', import.meta.url))
const STEPS = ['record', 'cgroup', 'namespace', 'mount', 'launch', 'ports', 'running', 'exited', 'removing']

let dataFolder: string
let image: Image

const provider = () =>
  createLocalProvider({ dataFolder, runtime: 'bwrap', allowHostBase: false, log: createLog('silent') })

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-crash-'))
  image = await provider().importRootfs(await baseRootfs())
}, 600_000)

afterAll(() => rm(dataFolder, { recursive: true }))

async function dieAt(step: string, id: string, runtime: string): Promise<string | null> {
  const child = spawn(process.execPath, [ENGINE, dataFolder, image.digest, id, runtime, step], { stdio: 'ignore' })
  const [, signal] = await once(child, 'exit')
  return signal
}

const GROUP_STEPS = { 'group-record': 1, group: 1, member: 2, exec: 2 }

const CASES = ['bwrap', 'runc'].flatMap((runtime) => STEPS.map((step) => [runtime, step] as const))

test.each(CASES)('%s: an engine killed at the step %s leaves nothing after the next start', async (runtime, step) => {
  const id = `crash-${randomUUID()}`
  expect(await dieAt(step, id, runtime)).toBe('SIGKILL')

  const reaped = await provider().reap()

  expect(reaped).toBe(1)
  await vi.waitFor(async () => expect(await findLeftovers(dataFolder, id)).toEqual([]), { timeout: 5000 })
})

const GROUP_CASES = ['bwrap', 'runc'].flatMap((runtime) =>
  Object.entries(GROUP_STEPS).map(([step, count]) => [runtime, step, count] as const),
)

test.each(GROUP_CASES)(
  '%s: an engine with a sandbox network, killed at the step %s, leaves nothing',
  async (runtime, step, count) => {
    const id = `crash-${randomUUID()}`
    await rm(join(dataFolder, 'exec-output'), { force: true })
    expect(await dieAt(step, id, runtime)).toBe('SIGKILL')

    const reaped = await provider().reap()

    expect(reaped).toBe(count)
    await vi.waitFor(async () => expect(await findLeftovers(dataFolder, id)).toEqual([]), { timeout: 5000 })
  },
)

test('cleanup does not remove a sandbox whose engine is alive', async () => {
  const sandbox = await provider().start({
    id: `live-${randomUUID()}`,
    image,
    baseFilesystem: { kind: 'image' },
    command: ['sh', '-c', 'sleep 1; exit 5'],
    user: null,
    workdir: null,
    env: {},
    mounts: [],
    uploads: [],
    usesExec: false,
    network: null,
    ports: [],
    input: '',
    limits: { ...DEFAULT_LIMITS, pids: 32, outputBytes: 1000, seconds: 20 },
    outputFile: join(dataFolder, 'output'),
  })
  expect(await provider().reap()).toBe(0)
  expect((await sandbox.exited).code).toBe(5)
  await sandbox.remove()
})

test('removes the partial image of a killed process and keeps that of a live one', async () => {
  const store = join(dataFolder, 'sandboxes', 'local')
  const drafts = () => readdir(join(store, 'drafts'))
  const before = await drafts()
  const [, signal] = await once(spawn(process.execPath, [IMPORT, store], { stdio: 'ignore' }), 'exit')
  expect([signal, (await drafts()).length]).toEqual(['SIGKILL', before.length + 1])

  await createLayer(await openStore(store), async () => {
    await provider().reap()
    expect((await drafts()).length).toBe(before.length + 1)
  })
  expect(await drafts()).toEqual(before)
})
