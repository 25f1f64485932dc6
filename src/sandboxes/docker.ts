import { join } from 'node:path'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/allowed-hosts.ts'
import { discardImage } from './docker/built-images.ts'
import type { DockerConnection } from './docker/connection.ts'
import type { DockerEngine } from './docker/engine.ts'
import { findEngine } from './docker/find-engine.ts'
import { openNetwork } from './docker/network.ts'
import { prepareImage } from './docker/prepare.ts'
import { reap } from './docker/reap.ts'
import { startSandbox } from './docker/start.ts'
import { type Capabilities, type SandboxProvider, SandboxUnavailable } from './sandbox.ts'

export type DockerOptions = {
  /** A function is called when the engine is first needed. It may throw SandboxUnavailable. */
  connection: DockerConnection | (() => Promise<DockerConnection>)
  /** Distinguishes servers that share an engine. Each removes only its own leftovers. */
  installation: string
  dataFolder: string
  /** Hosts that builds may reach besides public ones. */
  buildHosts?: readonly AllowedHost[]
  /** Maximum size of all images of the engine. Default: no limit. */
  imageDiskBytes?: number | undefined
  log: Log
}

const ANSWER_MS = 25_000
const SILENT = 'The Docker engine does not answer.'

/** Creates the provider `docker`: sandboxes are containers of a local or remote Docker engine. */
export function createDockerProvider(options: DockerOptions): SandboxProvider {
  const { connection, installation, dataFolder, buildHosts = [], imageDiskBytes, log } = options
  const folder = join(dataFolder, 'sandboxes', 'docker')
  let found: Promise<DockerEngine> | undefined
  const engine = (): Promise<DockerEngine> => {
    found ??= Promise.resolve(typeof connection === 'function' ? connection() : connection).then((opened) =>
      findEngine({ connection: opened, installation, folder, buildHosts, imageDiskBytes, log }),
    )
    // A failure is retried on the next call, because the engine may have been started.
    found.catch(() => {
      found = undefined
    })
    return found
  }

  /** Returns the engine after checking that it still answers. A restarted engine is detected again. */
  const living = async (): Promise<DockerEngine> => {
    const known = await engine()
    await known.docker.call('GET', '/version', { signal: AbortSignal.timeout(ANSWER_MS) }).catch((error: unknown) => {
      found = undefined
      throw error instanceof SandboxUnavailable ? error : new SandboxUnavailable(SILENT, { cause: error })
    })
    return known
  }

  return {
    name: 'docker',
    selfTest: async () => capabilitiesOf(await living()),
    prepare: async (source, prepareOptions) => prepareImage(await engine(), source, prepareOptions),
    discard: async (image) => discardImage(await engine(), image),
    openNetwork: async (id) => openNetwork(await engine(), id),
    start: async (spec) => startSandbox(await engine(), spec),
    reap: async () => reap(await engine()),
  }
}

const capabilitiesOf = ({ isolation, gatewayChannel }: DockerEngine): Capabilities => ({
  isolation,
  gatewayChannel,
  limits: { cpus: true, memory: true, pids: true, disk: 'watched' },
  groups: true,
})
