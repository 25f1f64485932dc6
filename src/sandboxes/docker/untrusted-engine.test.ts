import { access, mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { baseImages, type Dockerd, startDockerd } from '../../../test/support/dockerd.ts'
import { createLog } from '../../platform/log.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { recordUse } from './built-images.ts'
import { openEngine } from './open-engine.ts'
import { parseImageId } from './prepare.ts'

let folder: string
let dockerd: Dockerd
let relay: Server
let port: number

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-untrusted-'))
  dockerd = await startDockerd({ images: await baseImages() })
  relay = createServer((socket) => {
    const engine = connect(dockerd.socket)
    socket.on('error', () => {}).pipe(engine)
    engine.on('error', () => {}).pipe(socket)
  })
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve))
  const address = relay.address()
  port = typeof address === 'object' && address ? address.port : 0
}, 600_000)
afterAll(async () => {
  relay.close()
  await dockerd[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

const find = (publicOnly: boolean) =>
  openEngine({
    connection: { kind: 'tcp', host: '127.0.0.1', port, tls: null, publicOnly },
    installation: 'untrusted',
    folder: join(folder, 'docker'),
    buildHosts: [],
    imageDiskBytes: undefined,
    log: createLog('silent'),
  })

test('an engine of a stored credential cannot claim to be on this machine', { timeout: 120_000 }, async () => {
  // Its answers would name folders and processes of this machine, which root reads and writes.
  expect(await find(true)).toMatchObject({ isOnThisMachine: false, seesProcesses: false, isRoot: false })
  expect(await find(false)).toMatchObject({ isOnThisMachine: true })
})

test.each(['sha256:x/../../../../proof', '../proof', '/proof', '', 'sha256:', `sha256:${'a'.repeat(63)}/`])(
  'the image id %j of an engine is not used',
  async (id) => {
    expect(() => parseImageId(id)).toThrow(SandboxUnavailable)
    const image = {
      digest: id,
      workdir: '/',
      user: 'root',
      env: {},
      entrypoint: [],
      command: [],
      base: 'image' as const,
    }
    await expect(recordUse({ folder: join(folder, 'a', 'b') }, image, false)).rejects.toThrow('Invalid image id')
    await expect(access(join(folder, 'proof'))).rejects.toThrow()
  },
)
