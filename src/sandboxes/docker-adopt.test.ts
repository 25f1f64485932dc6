import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseImages, type Dockerd, startDockerd } from '../../test/support/dockerd.ts'
import { adoptableSpec } from '../../test/support/sandboxes/adoptable-spec.ts'
import { findLeftovers } from '../../test/support/sandboxes/docker-subject.ts'
import { createLog } from '../platform/log.ts'
import { createDockerProvider } from './docker.ts'
import { type ExecSpec, type Sandbox, type SandboxProvider, SandboxUnavailable } from './sandbox.ts'

vi.setConfig({ testTimeout: 60_000 })

const CLIENT = fileURLToPath(new URL('../../test/support/sandboxes/adoptable-docker-client.ts', import.meta.url))
const INSTALLATION = 'adopting'

let dataFolder: string
let dockerd: Dockerd

/** Creates a provider without memory of earlier sandboxes, as a new process has it. */
const newProvider = (): SandboxProvider => {
  const connection = { kind: 'unix' as const, path: dockerd.socket }
  return createDockerProvider({ connection, installation: INSTALLATION, dataFolder, log: createLog('silent') })
}

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-adopt-'))
  dockerd = await startDockerd({ images: await baseImages() })
}, 600_000)

afterAll(async () => {
  await dockerd[Symbol.asyncDispose]()
  await rm(dataFolder, { recursive: true })
})

/** Starts a sandbox in another process, and kills that process while the command runs. Returns the id of the sandbox. */
async function startInDyingProcess(): Promise<string> {
  const id = `adopt-${randomUUID()}`
  const args = [CLIENT, dataFolder, dockerd.socket, INSTALLATION, id]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  return id
}

const adopt = async (id: string, seconds = 20): Promise<Sandbox | undefined> => {
  const provider = newProvider()
  const spec = await adoptableSpec(provider, dataFolder, id)
  return provider.adopt?.({ ...spec, limits: { ...spec.limits, seconds } })
}

const requireSandbox = (sandbox: Sandbox | undefined): Sandbox => {
  if (!sandbox) throw new Error('The sandbox was not adopted.')
  return sandbox
}

/** Lets the command of the sandbox end. */
const finishCommand = (sandbox: Sandbox, id: string) =>
  sandbox.exec({
    command: ['touch', '/go'],
    user: null,
    workdir: null,
    env: {},
    input: '',
    outputFile: join(dataFolder, `${id}-go.log`),
    limits: { outputBytes: 1000, seconds: 10 },
  } satisfies ExecSpec)

const readOutput = (id: string): Promise<string> => readFile(join(dataFolder, `${id}.log`), 'utf8')

test('a sandbox of a killed process continues in another one: its output is whole, its files can be read', async () => {
  const id = await startInDyingProcess()
  const sandbox = requireSandbox(await adopt(id))

  await finishCommand(sandbox, id)

  expect(await sandbox.exited).toMatchObject({ code: 7, limit: null, outputBytes: 'begun\ndone\n'.length })
  expect(await readOutput(id)).toBe('begun\ndone\n')
  const found = await sandbox.stopped.collect('/result', { files: 1, bytes: 1000 })
  expect(found && (await text(found.tar))).toContain('work\n')
  await sandbox.remove()
  expect(await findLeftovers(dockerd.docker, dataFolder, id)).toEqual([])
})

test('a sandbox whose command ended while it had no process is adopted with its exit code', async () => {
  const id = await startInDyingProcess()
  const first = requireSandbox(await adopt(id))
  await finishCommand(first, id)
  await first.leave?.()
  await dockerd.docker.call('POST', `/containers/assay-${INSTALLATION}-${id}/wait`)

  const sandbox = requireSandbox(await adopt(id))

  expect(await sandbox.exited).toMatchObject({ code: 7, limit: null })
  expect(await readOutput(id)).toBe('begun\ndone\n')
  await sandbox.remove()
})

test('a process that leaves a sandbox neither ends nor removes it', async () => {
  const id = await startInDyingProcess()
  const first = requireSandbox(await adopt(id))

  await first.leave?.()
  await expect(first.exited).rejects.toThrow('left to another process')
  await first.kill()
  await first.remove()

  const second = requireSandbox(await adopt(id))
  await finishCommand(second, id)
  expect((await second.exited).code).toBe(7)
  await second.remove()
})

test('the files of a container that somebody removed are an error, and not missing files', async () => {
  const id = await startInDyingProcess()
  const sandbox = requireSandbox(await adopt(id))
  await finishCommand(sandbox, id)
  await sandbox.exited
  await dockerd.docker.call('DELETE', `/containers/assay-${INSTALLATION}-${id}`)
  await expect(sandbox.stopped.collect('/result', { files: 1, bytes: 1000 })).rejects.toThrow(SandboxUnavailable)
  await sandbox.remove()
})

test('the time limit counts from the start of the command', async () => {
  const id = await startInDyingProcess()
  const sandbox = requireSandbox(await adopt(id, 0.5))
  const exit = await sandbox.exited
  expect(exit).toMatchObject({ code: null, limit: 'seconds' })
  expect(exit.seconds).toBeGreaterThan(0.5)
  await sandbox.remove()
})

test('cleanup keeps a sandbox that may be adopted, and removes it otherwise', async () => {
  const id = await startInDyingProcess()
  expect(await newProvider().reap(new Set([id]))).toBe(0)
  expect(await newProvider().reap(new Set(['another']))).toBe(1)
  expect(await adopt(id)).toBeUndefined()
  expect(await findLeftovers(dockerd.docker, dataFolder, id)).toEqual([])
})

test('a sandbox that was not started as adoptable cannot be adopted', async () => {
  const id = `adopt-${randomUUID()}`
  const provider = newProvider()
  const spec = { ...(await adoptableSpec(provider, dataFolder, id)), isAdoptable: false }
  const sandbox = await provider.start(spec)
  expect(sandbox.leave).toBeUndefined()
  expect(await adopt(id)).toBeUndefined()
  await sandbox.remove()
})
