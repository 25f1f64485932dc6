import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { baseImages, startDockerd } from '../../test/support/dockerd.ts'
import { baseImage } from '../../test/support/sandboxes/docker-subject.ts'
import { plainSpec } from '../../test/support/sandboxes/plain-spec.ts'
import { createLog } from '../platform/log.ts'
import { createDockerProvider } from './docker.ts'
import { findProcess } from './kernel/ownership.ts'
import { SandboxUnavailable } from './sandbox.ts'

test('an engine that goes away is noticed by the next self-test, and so is its return', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'assay-gone-'))
  const engine = join(folder, 'engine')
  const provider = createDockerProvider({
    connection: { kind: 'unix', path: join(engine, 'docker.sock') },
    installation: 'gone',
    dataFolder: join(folder, 'data'),
    log: createLog('silent'),
  })
  const start = async () => {
    await mkdir(engine)
    return startDockerd({ folder: engine, images: await baseImages() })
  }
  await expect(provider.selfTest()).rejects.toThrow(SandboxUnavailable)
  const first = await start()
  expect(await provider.selfTest()).toMatchObject({ isolation: 'docker:runc' })
  expect(await provider.selfTest()).toMatchObject({ isolation: 'docker:runc' })
  await first[Symbol.asyncDispose]()
  await expect(provider.selfTest()).rejects.toThrow(SandboxUnavailable)
  const second = await start()
  expect(await provider.selfTest()).toMatchObject({ isolation: 'docker:runc' })
  await second[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

test('a sandbox that cannot be removed, because its engine is gone, is removed after its return', async () => {
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-gone-'))
  await using engine = await startDockerd({ images: await baseImages() })
  const provider = createDockerProvider({
    connection: { kind: 'unix', path: engine.socket },
    installation: 'gone',
    dataFolder,
    log: createLog('silent'),
  })
  const image = await baseImage(provider)
  const sandbox = await provider.start(plainSpec(image, ['sleep', '600'], join(dataFolder, 'output')))
  process.kill(engine.pid, 'SIGTERM')
  await expect.poll(() => findProcess(engine.pid)).toBeUndefined()
  await expect(sandbox.remove()).rejects.toThrow(SandboxUnavailable)

  await using restarted = await startDockerd({ folder: engine.folder })
  const listContainers = () => restarted.docker.call<unknown[]>('GET', '/containers/json', { query: { all: true } })
  expect(await listContainers()).toHaveLength(1)
  await provider.selfTest()
  expect(await provider.reap()).toBe(1)
  expect(await listContainers()).toEqual([])
  await rm(dataFolder, { recursive: true })
})
