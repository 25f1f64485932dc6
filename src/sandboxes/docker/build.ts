import { Readable } from 'node:stream'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import { type Dockerfile, type DockerfileInstruction, readDockerfile } from '../../harbor/dockerfile.ts'
import { buildArgs } from '../egress/build-egress.ts'
import { tarFile } from '../kernel/tar-writer.ts'
import { type ImageSource, type PrepareOptions, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { buildQuery, containerLimiter } from './build-limits.ts'
import { openBuildNetwork } from './build-network.ts'
import { contextTar, folderTar } from './context.ts'
import type { DockerEngine } from './engine.ts'
import { readMessages } from './messages.ts'

export type BuildPlan = Omit<Extract<ImageSource, { kind: 'dockerfile' }>, 'kind' | 'dockerfile'> & {
  text: string
  /** Null when the Dockerfile is generated and not part of the context. */
  dockerfile: string | null
}

/** Folder of the files in the context of a generated Dockerfile, which must not be among them. */
export const FILES_FOLDER = 'files'

/**
 * Closing the connection is enough at the deadline: the engine stops what it runs for a client that has disconnected.
 */
export async function buildImage(
  engine: DockerEngine,
  plan: BuildPlan,
  tag: string,
  options: PrepareOptions,
): Promise<string> {
  const dockerfile = readDockerfile(plan.text)
  const { limits = DEFAULT_LIMITS } = options
  await using network = await openBuildNetwork(engine, dockerfile, options)
  const query = {
    t: tag,
    dockerfile: plan.dockerfile ?? 'Dockerfile',
    rm: true,
    forcerm: true,
    target: plan.target ?? undefined,
    buildargs: JSON.stringify({ ...plan.args, ...buildArgs(network.env, dockerfile) }),
    networkmode: network.mode,
    ...buildQuery(engine, limits),
  }
  const headers = { 'content-type': 'application/x-tar' }
  const body = await contextOf(plan)
  // A build whose containers cannot be limited is aborted.
  const unlimited = new AbortController()
  const signal = AbortSignal.any([options.signal, unlimited.signal])
  const limiter = await containerLimiter(engine.docker, limits, (error) => unlimited.abort(error))
  try {
    const answer = await engine.docker.open('POST', '/build', { query, body, headers, signal, timeoutMs: null })
    await readMessages(answer, (line) => {
      limiter.hear(line)
      options.onLog(line)
    })
    return tag
  } catch (thrown) {
    options.signal.throwIfAborted()
    const error = unlimited.signal.reason ?? thrown
    const said = error instanceof Error ? error.message : String(error)
    throw new SandboxUnavailable(`The image could not be built:\n${said}`, { cause: error })
  } finally {
    limiter.stop()
  }
}

async function contextOf({ text, context, dockerfile }: BuildPlan): Promise<Readable> {
  if (dockerfile !== null) return contextTar(context, dockerfile)
  const own = tarFile('Dockerfile', Buffer.from(text), 0o644)
  return Readable.from(before(own, await folderTar(context, FILES_FOLDER)))
}

async function* before(first: Buffer[], rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* first
  yield* rest
}

/** The engine itself would fetch it, in its own network, wherever that leads. */
export function refuseFetching({ stages }: Dockerfile): void {
  for (const { keyword, text, line } of stages.flatMap(({ instructions }) => instructions)) {
    if (keyword !== 'ADD' || !MAY_BE_ADDRESS.test(text)) continue
    throw new SandboxUnsupported(
      `Line ${line} of the Dockerfile: ADD of an address or a variable is refused. RUN can fetch it.`,
    )
  }
}

/** Words may be quoted, escaped, or JSON with escapes of its own: what has none of these signs is no address anyhow. */
const MAY_BE_ADDRESS = /[:$\\]/

const BUILDKIT_FLAGS = ['mount', 'link', 'chmod', 'parents', 'exclude', 'network', 'security']

/**
 * Refuses instructions that only BuildKit supports. The classic builder, which engines offer to API clients, does not.
 */
export function refuseBuildKit({ stages }: Dockerfile): void {
  for (const instruction of stages.flatMap(({ instructions }) => instructions)) {
    const what = needOf(instruction)
    if (what) throw new SandboxUnsupported(`Line ${instruction.line} of the Dockerfile: ${what} needs BuildKit.`)
  }
}

function needOf({ keyword, flags, heredocs }: DockerfileInstruction): string | undefined {
  if (heredocs.length > 0) return `${keyword} <<`
  const flag = flags.find(({ name }) => BUILDKIT_FLAGS.includes(name))
  return flag && `${keyword} --${flag.name}`
}
