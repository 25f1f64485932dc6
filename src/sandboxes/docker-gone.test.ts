import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { baseImages, startDockerd } from '../../test/support/dockerd.ts'
import { createLog } from '../platform/log.ts'
import { createDockerProvider } from './docker.ts'
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
