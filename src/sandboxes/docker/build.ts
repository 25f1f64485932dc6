import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { type Dockerfile, readDockerfile } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { buildArgs, openBuildEgress } from '../egress/build-egress.ts'
import { ADDED_FOLDER } from '../kernel/dockerfile.ts'
import { tarFile } from '../kernel/tar-writer.ts'
import {
  type BuildLimits,
  type ImageSource,
  MEGABYTE,
  type PrepareOptions,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { type Docker, ignoring } from './client.ts'
import { isContainerRunning } from './container.ts'
import { type ContextAdditions, packBuildContext, packExtendedContext, packFolder } from './context.ts'
import { type DockerEngine, nameOf } from './engine.ts'
import { toLauncherImage } from './launcher.ts'
import { startSandbox } from './start.ts'

export type BuildPlan = Omit<Extract<ImageSource, { kind: 'dockerfile' }>, 'kind' | 'dockerfile'> & {
  text: string
  /** Null when the Dockerfile is generated and not part of the context. */
  dockerfile: string | null
  /** Additions to the context of a rewritten Dockerfile. Null if the Dockerfile is used unchanged. */
  additions: ContextAdditions | null
}

/** Folder of the build context with the files that a generated Dockerfile copies. */
export const FILES_FOLDER = 'files'

/**
 * Builds an image and returns its tag. At the deadline only the connection is closed: the engine stops a build whose
 * client has disconnected.
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
    dockerfile: plan.additions ? ADDED_DOCKERFILE : (plan.dockerfile ?? 'Dockerfile'),
    rm: true,
    forcerm: true,
    target: plan.target ?? undefined,
    buildargs: JSON.stringify({ ...plan.args, ...buildArgs(network.env, dockerfile) }),
    networkmode: network.mode,
    ...toLimitParameters(engine, limits),
  }
  const headers = { 'content-type': 'application/x-tar' }
  const body = await packContext(plan)
  // Aborts a build that exceeds its limits, or whose containers cannot be limited.
  const limitAbort = new AbortController()
  const signal = AbortSignal.any([options.signal, limitAbort.signal])
  const limiter = await startBuildLimiter(engine.docker, limits, (error) => limitAbort.abort(error))
  try {
    const answer = await engine.docker.open('POST', '/build', { query, body, headers, signal, timeoutMs: null })
    const image = await readMessages(answer, (line) => {
      limiter.onLine(line)
      options.onLog(line)
    })
    await limiter.settle()
    limitAbort.signal.throwIfAborted()
    if (image === undefined || !IMAGE_ID.test(image)) throw new Error('The Docker engine did not name the image.')
    // The build request has no tag, because the engine may complete a build that was aborted.
    await nameImage(engine.docker, image, tag)
    return tag
  } catch (thrown) {
    options.signal.throwIfAborted()
    const error = limitAbort.signal.reason ?? thrown
    const message = error instanceof Error ? error.message : String(error)
    throw new SandboxUnavailable(`The image could not be built:\n${message}`, { cause: error })
  } finally {
    limiter.stop()
  }
}

const IMAGE_ID = /^sha256:[0-9a-f]{64}$/

async function nameImage(docker: Docker, image: string, name: string): Promise<void> {
  const [repo, tag] = name.split(':')
  await docker.call('POST', `/images/${image}/tag`, { query: { repo, tag } })
}

const ADDED_DOCKERFILE = `${ADDED_FOLDER}/Dockerfile`

async function packContext({ text, context, dockerfile, additions }: BuildPlan): Promise<Readable> {
  if (dockerfile !== null && additions) {
    const rewritten = { path: ADDED_DOCKERFILE, content: text, mode: 0o644 }
    return packExtendedContext(context, dockerfile, { ...additions, files: [rewritten, ...additions.files] })
  }
  if (dockerfile !== null) return packBuildContext(context, dockerfile)
  const generated = tarFile('Dockerfile', Buffer.from(text), 0o644)
  return Readable.from(concat(generated, await packFolder(context, FILES_FOLDER)))
}

async function* concat(first: Buffer[], rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* first
  yield* rest
}

/** Refuses ADD with a URL: the engine would download it through its own unrestricted network. */
export function refuseRemoteAdd({ stages }: Dockerfile): void {
  for (const { keyword, text, line } of stages.flatMap(({ instructions }) => instructions)) {
    if (keyword !== 'ADD' || !MAY_BE_URL.test(text)) continue
    throw new SandboxUnsupported(
      `Line ${line} of the Dockerfile: ADD of a URL or a variable is refused. Fetch the file with RUN instead.`,
    )
  }
}

/** Every URL and every variable contains one of these characters, however it is quoted. */
const MAY_BE_URL = /[:$\\]/

/** Network of a build. `mode` is the engine's network mode. */
type DockerBuildNetwork = AsyncDisposable & { mode: string; env: Record<string, string> }

const NO_NETWORK: DockerBuildNetwork = { mode: 'none', env: {}, [Symbol.asyncDispose]: async () => {} }

/**
 * Starts an idle sandbox whose network the build joins: a loopback and one port to the egress proxy. A bridge of the engine
 * would reach services of this machine and its neighbours, and the metadata service of a cloud.
 */
async function openBuildNetwork(
  engine: DockerEngine,
  { stages }: Dockerfile,
  { timeoutSec, onLog }: PrepareOptions,
): Promise<DockerBuildNetwork> {
  if (!stages.some(({ instructions }) => instructions.some(({ keyword }) => keyword === 'RUN'))) return NO_NETWORK
  const { launcher, gatewayChannel } = engine
  if (launcher === undefined || gatewayChannel === 'none') {
    onLog('This build has no network: no port can be carried to a container of this Docker engine.')
    return NO_NETWORK
  }
  const egress = openBuildEgress(engine.buildHosts)
  const id = `build-${randomUUID()}`
  const outputFile = join(engine.folder, `spool-${id}`)
  const sandbox = await startSandbox(engine, {
    id,
    image: toLauncherImage(launcher),
    baseFilesystem: { kind: 'image' },
    uploads: [],
    command: null,
    usesExec: false,
    user: null,
    workdir: null,
    env: {},
    mounts: [],
    network: null,
    ports: [egress.port],
    input: '',
    outputFile,
    limits: { ...DEFAULT_LIMITS, pids: 16, outputBytes: 1000, seconds: timeoutSec },
  })
  return {
    mode: `container:${nameOf(engine, id)}`,
    env: egress.env,
    async [Symbol.asyncDispose]() {
      egress.close(onLog)
      await sandbox.remove()
      await rm(outputFile, { force: true })
    },
  }
}

/** Period of the scheduler for which the quota of CPU time is given. */
const CPU_PERIOD_US = 100_000
const PROCESSES_MAX = 4096

/** Returns the limits of each build command as parameters of the engine's API. */
function toLimitParameters({ memoryBytes, cpus }: DockerEngine, limits: BuildLimits): Record<string, number> {
  const memory = Math.min(limits.memoryMb * MEGABYTE, memoryBytes)
  return {
    memory,
    memswap: memory,
    shmsize: DEFAULT_LIMITS.shmMb * MEGABYTE,
    cpuperiod: CPU_PERIOD_US,
    cpuquota: Math.round(Math.min(limits.cpus, cpus) * CPU_PERIOD_US),
  }
}

/** Line in which the engine names the container of a build command. */
const RUNNING_IN = /^ ---> Running in ([0-9a-f]{12})$/
/** Line in which the engine names the image that a step has made. */
const STEP_IMAGE = /^ ---> ([0-9a-f]{12})$/

/**
 * Limits the processes of each build container, and the size of all layers together with what the current container has
 * written. The engine accepts such limits for containers but not for builds, so the containers and layers are read from the
 * output of the build. A command can print the same lines to mislead the limiter: containers that existed before the build and
 * layers that do not exist or are already counted are therefore ignored, as are base images, which have a name.
 */
async function startBuildLimiter(docker: Docker, { diskMb }: BuildLimits, onError: (error: unknown) => void) {
  const ignoredIds = new Set(await listIds(docker))
  let container: string | undefined
  let layersBytes = 0
  let countedLayers: Promise<void> = Promise.resolve()
  const checkSize = (containerBytes: number): void => {
    if (layersBytes + containerBytes > diskMb * MEGABYTE)
      onError(new SandboxUnavailable(`The build wrote more than ${diskMb} MiB.`))
  }
  const measureContainer = async (): Promise<void> => {
    const measured = container
    if (measured === undefined) return
    const query = { size: true }
    const { SizeRw = 0 } = await docker.call<{ SizeRw?: number }>('GET', `/containers/${measured}/json`, { query })
    // A container that is no longer current has become a layer, which `addLayer` counts.
    if (container === measured) checkSize(SizeRw)
  }
  const addLayer = async (image: string): Promise<void> => {
    const history = await docker.call<{ Size: number }[]>('GET', `/images/${image}/history`).catch(ignoring(404))
    if (history === undefined) return
    container = undefined
    layersBytes += history[0]?.Size ?? 0
    checkSize(0)
  }
  const timer = setInterval(() => void measureContainer().catch(() => {}), POLL_MS)
  return {
    onLine(line: string): void {
      const started = RUNNING_IN.exec(line)?.[1]
      if (started !== undefined && !ignoredIds.has(started)) {
        container = started
        limitProcesses(docker, started).catch(onError)
      }
      const image = STEP_IMAGE.exec(line)?.[1]
      if (image === undefined || ignoredIds.has(image)) return
      ignoredIds.add(image)
      countedLayers = countedLayers.then(() => addLayer(image)).catch(onError)
    },
    /** Waits until all layers so far are counted. */
    settle: () => countedLayers,
    stop: () => clearInterval(timer),
  }
}

const POLL_MS = 2000
const TRIES_MAX = 20
const PAUSE_MS = 50

/** Limits the processes of a build container. Retries, because the engine notices late that a container has ended. */
async function limitProcesses(docker: Docker, id: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await docker.call('POST', `/containers/${id}/update`, { body: { PidsLimit: PROCESSES_MAX } })
      return
    } catch (error) {
      if (!(await isContainerRunning(docker, id))) return
      if (tries === TRIES_MAX) throw error
      await wait(PAUSE_MS)
    }
  }
}

type NamedImage = { Id: string; RepoTags: string[] | null }

/** Lists the ids of all containers and of images with a name, in the short form that the engine prints. */
async function listIds(docker: Docker): Promise<string[]> {
  const query = { all: true }
  const containers = await docker.call<{ Id: string }[]>('GET', '/containers/json', { query })
  const images = await docker.call<NamedImage[]>('GET', '/images/json', { query })
  const named = images.filter(({ RepoTags }) => RepoTags?.some((name) => name !== NO_NAME))
  return [...containers, ...named].map(({ Id }) => Id.replace('sha256:', '').slice(0, 12))
}

const NO_NAME = '<none>:<none>'

const EngineMessage = z.object({
  stream: z.string().optional(),
  status: z.string().optional(),
  error: z.string().optional(),
  aux: z.object({ ID: z.string().optional() }).optional(),
})

const LINE_BYTES_MAX = 4 * 1024 * 1024

/** Fails at a line that is too long to be a message, before it fills the memory. */
function limitLines(answer: Readable): Readable {
  const check = async function* (chunks: AsyncIterable<Buffer>) {
    let bytes = 0
    for await (const chunk of chunks) {
      const end = chunk.lastIndexOf('\n')
      bytes = end < 0 ? bytes + chunk.length : chunk.length - end
      if (bytes > LINE_BYTES_MAX) throw new SandboxUnavailable('The Docker engine sent a line that is too long.')
      yield chunk
    }
  }
  return Readable.from(check(answer), { objectMode: false })
}

const LAST_LINES = 30

/**
 * Reads the progress of a build or pull, one line of JSON each. Errors are reported only there. Returns the id of the image
 * that was built.
 */
export async function readMessages(answer: Readable, onLog: (line: string) => void): Promise<string | undefined> {
  let image: string | undefined
  const last: string[] = []
  const logLines = (text: string): void => {
    for (const line of text.split('\n').filter((part) => part.trim() !== '')) {
      last.push(line)
      if (last.length > LAST_LINES) last.shift()
      onLog(line)
    }
  }
  for await (const line of createInterface({ input: limitLines(answer) })) {
    if (line === '') continue
    const message = EngineMessage.safeParse(parseUntrustedJson(line))
    if (!message.success) throw new SandboxUnavailable('The Docker engine sent an invalid message.')
    const { stream, status, error, aux } = message.data
    image = aux?.ID ?? image
    logLines(stream ?? status ?? '')
    if (error !== undefined) throw new Error([...last, error].join('\n'))
  }
  return image
}
