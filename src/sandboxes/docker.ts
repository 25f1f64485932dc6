import { join } from 'node:path'
import type { Log } from '../platform/log.ts'
import type { Connection } from './docker/connection.ts'
import type { Engine } from './docker/engine.ts'
import { findEngine } from './docker/find-engine.ts'
import { openGroup } from './docker/groups.ts'
import { prepareImage } from './docker/prepare.ts'
import { reap } from './docker/reap.ts'
import { startSandbox } from './docker/start.ts'
import type { Place } from './egress/rules.ts'
import { type Capabilities, type Provider, SandboxUnavailable } from './sandbox.ts'

export type DockerOptions = {
  connection: Connection
  /** Told apart by it: several servers may use one engine, and each cleans up after itself only. */
  installation: string
  dataFolder: string
  /** What builds may reach besides public places. */
  buildHosts?: readonly Place[]
  log: Log
}

const ANSWER_MS = 25_000
const SILENT = 'The Docker engine does not answer.'

/** Sandboxes as containers of a Docker engine, here or elsewhere. */
export function createDockerProvider(options: DockerOptions): Provider {
  const { connection, installation, dataFolder, buildHosts = [], log } = options
  const folder = join(dataFolder, 'sandboxes', 'docker')
  let found: Promise<Engine> | undefined
  const engine = (): Promise<Engine> => {
    found ??= findEngine({ connection, installation, folder, buildHosts, log })
    // An engine that is started later is found then.
    found.catch(() => {
      found = undefined
    })
    return found
  }

  /** One that was found may be gone by now. When it is back, it is found anew. */
  const living = async (): Promise<Engine> => {
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
    openGroup: async (id) => openGroup(await engine(), id),
    start: async (spec) => startSandbox(await engine(), spec),
    reap: async () => reap(await engine()),
  }
}

const capabilitiesOf = ({ isolation, gatewayChannel }: Engine): Capabilities => ({
  isolation,
  gatewayChannel,
  limits: { cpus: true, memory: true, pids: true, disk: 'watched' },
  groups: true,
})
