import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../../../src/platform/log.ts'
import { connectDocker, type Docker } from '../../../src/sandboxes/docker/client.ts'
import { createDockerProvider } from '../../../src/sandboxes/docker.ts'
import type { Image, ImageSource, SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import { baseImages, startDockerd } from '../dockerd.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'

/** Opens a provider on its own engine, which has only the base image. */
export async function createDockerSubject(unable: Record<string, string> = {}): Promise<ProviderUnderTest> {
  const dockerd = await startDockerd({ images: await baseImages() })
  const subject = await dockerSubjectAt(dockerd.socket, unable)
  return {
    ...subject,
    async [Symbol.asyncDispose]() {
      await subject[Symbol.asyncDispose]()
      await dockerd[Symbol.asyncDispose]()
    },
  }
}

/** Opens a provider on a running engine. */
export async function dockerSubjectAt(socket: string, unable: Record<string, string> = {}): Promise<ProviderUnderTest> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'assay-docker-'))
  const provider = createDockerProvider({
    connection: { kind: 'unix', path: socket },
    installation: randomUUID().slice(0, 8),
    dataFolder,
    log: createLog('silent'),
  })
  const image = await baseImage(provider)
  const docker = connectDocker({ kind: 'unix', path: socket })
  return {
    provider,
    image,
    otherImage: await prepareImage(provider, await otherSource(dataFolder)),
    brokenImage: { ...image, digest: `sha256:${'0'.repeat(64)}` },
    leftovers: (id) => findLeftovers(docker, dataFolder, id),
    unable,
    async [Symbol.asyncDispose]() {
      docker.close()
      await rm(dataFolder, { recursive: true })
    },
  }
}

export const baseImage = (provider: SandboxProvider): Promise<Image> =>
  prepareImage(provider, { ...BASE, folder: null, workdir: null })

const BASE = { kind: 'prebuilt' as const, name: 'debian:bookworm-slim' }

const prepareImage = (provider: SandboxProvider, source: ImageSource): Promise<Image> =>
  provider.prepare(source, { signal: new AbortController().signal, timeoutSec: 60, onLog: () => {} })

async function otherSource(dataFolder: string): Promise<ImageSource> {
  const folder = join(dataFolder, 'other')
  await mkdir(folder)
  await writeFile(join(folder, 'of-the-image'), 'image')
  return { ...BASE, folder, workdir: '/mine' }
}

type EngineObject = { Id?: string; Name?: string; Names?: string[]; Labels?: Record<string, string> | null }

/**
 * Lists containers, networks, volumes and images of the engine that name a sandbox or network, and files in the data
 * folder.
 */
export async function findLeftovers(docker: Docker, dataFolder: string, id: string): Promise<string[]> {
  const list = (path: string): Promise<EngineObject[]> => docker.call('GET', path, { query: { all: true } })
  const { Volumes } = await docker.call<{ Volumes: EngineObject[] | null }>('GET', '/volumes')
  const objects = [...(await list('/containers/json')), ...(await list('/networks')), ...(Volumes ?? [])]
  const files = await readdir(join(dataFolder, 'sandboxes', 'docker'), { recursive: true })
  return [
    ...objects.map((object) => JSON.stringify(object)).filter((text) => text.includes(id)),
    // The copy of Node for relays and the recorded uses of images belong to the engine, not to a sandbox.
    ...files.filter((file) => !['ports', 'mount'].includes(file) && !/^(relay-|uses(\/|$))/.test(file)),
  ]
}
