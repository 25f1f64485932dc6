import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import type { Dockerfile } from '../../harbor/dockerfile.ts'
import { openBuildWay } from '../egress/build-way.ts'
import type { PrepareOptions } from '../sandbox.ts'
import { type Engine, nameOf } from './engine.ts'
import type { Launcher } from './launcher.ts'
import { startSandbox } from './start.ts'

/** `mode` is what the engine is told of it. */
export type BuildNetwork = AsyncDisposable & { mode: string; env: Record<string, string> }

const NONE: BuildNetwork = { mode: 'none', env: {}, [Symbol.asyncDispose]: async () => {} }

/**
 * The network of a sandbox of ours, in which nothing runs: a loopback, and one port of it that leads out. A bridge of the
 * engine's would lead to whatever this machine and its neighbours listen with, and to the metadata of a cloud.
 */
export async function openBuildNetwork(
  engine: Engine,
  { stages }: Dockerfile,
  { timeoutSec, onLog }: PrepareOptions,
): Promise<BuildNetwork> {
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
    ...{ id, image: imageOf(launcher), seed: { kind: 'image' }, inserts: [], command: null, execs: false },
    ...{ user: null, workdir: null, env: {}, mounts: [], group: null, ports: [way.port], input: '', outputFile },
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

const imageOf = ({ image }: Launcher) => ({
  ...{ digest: image, workdir: '/', user: '0:0', env: {}, entrypoint: [], command: [], base: 'image' as const },
})
