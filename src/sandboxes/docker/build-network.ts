import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import type { Dockerfile } from '../../harbor/dockerfile.ts'
import { openBuildWay } from '../egress/build-egress.ts'
import type { PrepareOptions } from '../sandbox.ts'
import { type DockerEngine, nameOf } from './engine.ts'
import type { DockerLauncher } from './launcher.ts'
import { startSandbox } from './start.ts'

/** Network of a build. `mode` is the engine's network mode. */
export type DockerBuildNetwork = AsyncDisposable & { mode: string; env: Record<string, string> }

const NONE: DockerBuildNetwork = { mode: 'none', env: {}, [Symbol.asyncDispose]: async () => {} }

/**
 * Joins the network of an idle sandbox, which has a loopback and one port to the egress proxy. A bridge of the engine
 * would reach services of this machine and its neighbours, and the metadata service of a cloud.
 */
export async function openBuildNetwork(
  engine: DockerEngine,
  { stages }: Dockerfile,
  { timeoutSec, onLog }: PrepareOptions,
): Promise<DockerBuildNetwork> {
  if (!stages.some(({ instructions }) => instructions.some(({ keyword }) => keyword === 'RUN'))) return NONE
  const { launcher, gatewayChannel } = engine
  if (launcher === undefined || gatewayChannel === 'none') {
    onLog('This build has no network: no port can be carried to a container of this Docker engine.')
    return NONE
  }
  const way = openBuildWay(engine.buildHosts)
  const id = `build-${randomUUID()}`
  const outputFile = join(engine.folder, `spool-${id}`)
  const sandbox = await startSandbox(engine, {
    id,
    image: imageOf(launcher),
    baseFilesystem: { kind: 'image' },
    uploads: [],
    command: null,
    execs: false,
    user: null,
    workdir: null,
    env: {},
    mounts: [],
    network: null,
    ports: [way.port],
    input: '',
    outputFile,
    limits: { ...DEFAULT_LIMITS, pids: 16, outputBytes: 1000, seconds: timeoutSec },
  })
  return {
    mode: `container:${nameOf(engine, id)}`,
    env: way.env,
    async [Symbol.asyncDispose]() {
      way.close(onLog)
      await sandbox.remove()
      await rm(outputFile, { force: true })
    },
  }
}

const imageOf = ({ image }: DockerLauncher) => ({
  digest: image,
  workdir: '/',
  user: '0:0',
  env: {},
  entrypoint: [],
  command: [],
  base: 'image' as const,
})
