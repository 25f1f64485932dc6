import { appendFileSync } from 'node:fs'
import { mkdir, open, readdir, rm, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Network, Task } from '../harbor/task.ts'
import { newId } from '../platform/ids.ts'
import { removeTree } from '../sandboxes/kernel/run-program.ts'
import {
  type Image,
  type ImageSource,
  killOnAbort,
  type Mount,
  type PrepareOptions,
  type Sandbox,
  type SandboxNetwork,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
} from '../sandboxes/sandbox.ts'
import { isAdoptable, startOrAdopt } from './agent-handover.ts'
import { openNetwork, type PhaseNetwork, withModel } from './network.ts'
import type { PlacedFiles } from './place-files.ts'
import type { TrialTimings } from './record.ts'
import type { TrialRequest } from './trial-request.ts'
import { resolveBase, withholdFiles } from './withhold-files.ts'

/**
 * Operations that the phases of a step share. Sandboxes started here are killed when the trial is aborted, and removed at
 * its end.
 */
export type StepContext = {
  request: TrialRequest
  /** Temporary folder of this step for files that its sandboxes mount. */
  folder: string
  /** Mounts of the harness's programs. */
  mounts: Mount[]
  /** Notes for the record about files of the agent that had to be left out. */
  notes: string[]
  /** Must be called before the first process of the agent can run. From then on the trial is scored. */
  markAgentStarted(): void
  /**
   * Attributes a failure that ends the trial. Once an agent has started, failures are attributed to it unless an outage is
   * proven; the files of the trial may be removed to find out. Undefined before that, and always for control harnesses:
   * the caller then handles the error.
   */
  attributeFailure(): Promise<'agent' | 'outage' | undefined>
  /** Runs a phase and adds its duration to the timings of the trial. */
  timed<T>(phase: TimedPhase, work: () => Promise<T>): Promise<T>
  outputFile(name: string): string
  prepareImage(
    source: ImageSource,
    options: Pick<PrepareOptions, 'timeoutSec' | 'limits' | 'needsCommand'>,
  ): Promise<Image>
  openSandboxNetwork(): Promise<SandboxNetwork>
  /** Opens the network access that the task declares for a phase. The agent also gets the port of its model. */
  openPhaseNetwork(declared: Network, phase: 'agent' | 'verifier'): PhaseNetwork
  /** Files of the configuration. Undefined without any, and until `placeFiles`. */
  placedFiles(): PlacedFiles | undefined
  /** Withholds these files from everything that reads sandboxes that are started from now on. */
  placeFiles(placed: PlacedFiles): void
  startSandbox(name: string, spec: NewSandbox): Promise<Sandbox>
  /**
   * Starts the sandbox whose first process is the agent, or adopts the one in which an earlier process left it. Throws
   * AgentLost if that one cannot be continued.
   */
  startAgentSandbox(spec: NewSandbox): Promise<Sandbox>
  /** Removes a sandbox in the background. */
  removeLater(sandbox: Sandbox): void
}

export type NewSandbox = Omit<SandboxSpec, 'id' | 'outputFile'>

type TimedPhase = Exclude<keyof TrialTimings, 'total'>

/** Everything that one trial has started. Disposing removes its sandboxes and sandbox networks. */
export type TrialResources = AsyncDisposable & {
  /** Creates the context of a step, counted from 0, or of the trial as a whole (null). */
  createContext(step: number | null): Promise<StepContext>
  timings(): TrialTimings
}

type StartedResources = {
  sandboxes: Set<Sandbox>
  networks: SandboxNetwork[]
  removals: Promise<void>[]
  hasAgentStarted: boolean
  /** Remembered, because an outage may have passed when a failure is attributed again. */
  isOutageProven: boolean
  placedFiles: PlacedFiles | undefined
  spentMs: Record<TimedPhase, number>
}

/** `folder` is the trial's temporary folder; `mounts` are those of the harness's programs and may be filled later. */
export function openTrialResources(
  provider: SandboxProvider,
  request: TrialRequest,
  { folder, mounts }: { folder: string; mounts: Mount[] },
): TrialResources {
  const startedAt = performance.now() - (request.handover?.agent?.elapsedMs ?? 0)
  const started: StartedResources = {
    sandboxes: new Set(),
    networks: [],
    removals: [],
    hasAgentStarted: false,
    isOutageProven: false,
    placedFiles: undefined,
    spentMs: { prepare: 0, agent: 0, verify: 0 },
  }
  return {
    async createContext(step) {
      const stepFolder = join(folder, step === null ? 'trial' : String(step))
      await mkdir(stepFolder)
      const suffix = step === null ? '' : `-${step + 1}`
      return createContext(provider, request, started, { folder: stepFolder, mounts, step, suffix })
    },
    timings: () => ({
      prepare: toSeconds(started.spentMs.prepare),
      agent: toSeconds(started.spentMs.agent),
      verify: toSeconds(started.spentMs.verify),
      total: toSeconds(performance.now() - startedAt),
    }),
    async [Symbol.asyncDispose]() {
      const { handover, signal } = request
      const isTakenOver = signal.aborted && handover?.isTakenOver(signal.reason)
      const removals = [...started.sandboxes].map((sandbox) =>
        sandbox.leave && isTakenOver ? sandbox.leave() : sandbox.remove(),
      )
      await Promise.allSettled([...started.removals, ...removals])
      await Promise.allSettled(started.networks.map((network) => network.remove()))
    },
  }
}

/** Rounds to milliseconds. */
const toSeconds = (ms: number): number => Math.round(ms) / 1000

function createContext(
  provider: SandboxProvider,
  request: TrialRequest,
  started: StartedResources,
  { folder, mounts, step, suffix }: { folder: string; mounts: Mount[]; step: number | null; suffix: string },
): StepContext {
  const outputFile = (name: string): string => join(request.outputFolder, `${name}${suffix}.log`)
  const track = (raw: Sandbox): Sandbox => {
    const sandbox = started.placedFiles ? withholdFromSandbox(raw, started.placedFiles) : raw
    started.sandboxes.add(sandbox)
    return sandbox
  }
  const startSandbox = async (name: string, spec: NewSandbox): Promise<Sandbox> => {
    request.signal.throwIfAborted()
    const resolved = { ...(await resolveBase(spec)), id: createSandboxId(name), outputFile: outputFile(name) }
    const sandbox = track(await provider.start(resolved))
    killOnAbort(sandbox, request.signal)
    return sandbox
  }
  return {
    request,
    folder,
    mounts,
    notes: [],
    markAgentStarted() {
      started.hasAgentStarted = true
    },
    attributeFailure: () => attributeFailure(provider, request, started, folder),
    async timed(phase, work) {
      const phaseStartedAt = performance.now()
      return work().finally(() => {
        started.spentMs[phase] += performance.now() - phaseStartedAt
      })
    },
    outputFile,
    prepareImage: (source, options) =>
      logBuild(request, outputFile('build'), (onLog) =>
        provider.prepare(source, { ...options, signal: request.signal, onLog }),
      ),
    async openSandboxNetwork() {
      const network = await provider.openNetwork(newId())
      started.networks.push(network)
      return network
    },
    openPhaseNetwork: (declared, phase) => openPhaseNetwork(request, declared, phase),
    placedFiles: () => started.placedFiles,
    placeFiles(placed) {
      started.placedFiles = placed
    },
    startSandbox,
    async startAgentSandbox(spec) {
      const { handover, signal } = request
      if (!handover || step !== 0 || !isAdoptable(spec, mounts)) return startSandbox('agent', spec)
      const id = handover.agent?.sandboxId ?? createSandboxId('agent')
      const agentSpec = { ...spec, id, outputFile: outputFile('agent') }
      const sandbox = track(await startOrAdopt(provider, handover, agentSpec, signal))
      started.spentMs.agent += handover.agent?.elapsedMs ?? 0
      if (sandbox.leave) await handover.onAdoptable(id)
      return sandbox
    },
    removeLater(sandbox) {
      started.sandboxes.delete(sandbox)
      started.removals.push(sandbox.remove())
    },
  }
}

/** Returns a sandbox whose files, once it has stopped, are read without those of the configuration. */
function withholdFromSandbox(sandbox: Sandbox, placed: PlacedFiles): Sandbox {
  const { id, exited } = sandbox
  const stopped = withholdFiles(sandbox.stopped, placed)
  return {
    id,
    exited,
    stopped,
    kill: () => sandbox.kill(),
    exec: (spec) => sandbox.exec(spec),
    remove: () => sandbox.remove(),
    ...(sandbox.leave ? { leave: sandbox.leave } : {}),
  }
}

function openPhaseNetwork(request: TrialRequest, declared: Network, phase: 'agent' | 'verifier'): PhaseNetwork {
  const network = openNetwork(declared, {
    fallback: request.networks?.[phase],
    direct: listServiceNames(request.task),
    egress: request.egress,
  })
  return phase === 'agent' && request.model ? withModel(network, request.model.port) : network
}

/** Lists the names under which the services of a task reach each other. */
function listServiceNames({ environment, steps }: Task): string[] {
  const environments = steps.map(({ verifier: { sandbox } }) =>
    sandbox.mode === 'separate' ? sandbox.environment : environment,
  )
  const services = [environment, ...environments].flatMap(({ compose }) => compose?.services ?? [])
  const names = services.flatMap(({ name, hostname, aliases }) => [name, hostname, ...aliases])
  return [...new Set(names.filter((name) => name !== null))]
}

/** Keeps ids usable as file names. */
const ID_LENGTH_MAX = 90

/** Creates an id that is unique by its first part; the rest is for people. */
const createSandboxId = (name: string): string => `${newId()}-${name}`.slice(0, ID_LENGTH_MAX)

/** Number of lines of a build's output that its error quotes. */
const LAST_LINES = 20

/** Writes the output of a build to a file, and adds its last lines to the error if the build fails. */
async function logBuild<T>(
  { onLog }: TrialRequest,
  file: string,
  build: (onLog: (line: string) => void) => Promise<T>,
): Promise<T> {
  const last: string[] = []
  try {
    return await build((line) => {
      last.push(line)
      if (last.length > LAST_LINES) last.shift()
      appendFileSync(file, `${line}\n`)
      onLog?.(line)
    })
  } catch (error) {
    const lines = last.filter((line) => !(error instanceof Error) || !error.message.includes(line.trim()))
    if (!(error instanceof SandboxUnavailable) || lines.length === 0) throw error
    const output = lines.map((line) => `  ${line}`).join('\n')
    throw new SandboxUnavailable(`${error.message}\nLast output of the build:\n${output}`, { cause: error })
  }
}

async function attributeFailure(
  provider: SandboxProvider,
  { harness, signal, outputFolder }: TrialRequest,
  started: StartedResources,
  stepFolder: string,
): Promise<'agent' | 'outage' | undefined> {
  if (!started.hasAgentStarted || harness.isControl) return undefined
  const removeFiles = () => removeAgentFiles(started, stepFolder, outputFolder)
  started.isOutageProven ||= await isProvenOutage(provider, outputFolder, removeFiles)
  signal.throwIfAborted()
  return started.isOutageProven ? 'outage' : 'agent'
}

/**
 * Returns true if there is an outage of the sandbox engine or of this machine's disk. After an agent has started, only a
 * proven outage may exclude its trial. An error alone proves nothing, because the agent could have caused it: the engine
 * and the disk are tried. If they fail, they are tried again without the agent's files, which could have filled the disk.
 */
async function isProvenOutage(
  provider: SandboxProvider,
  folder: string,
  removeFiles: () => Promise<void>,
): Promise<boolean> {
  const isWorking = async (): Promise<boolean> =>
    (await isDiskUsable(folder)) &&
    provider.selfTest().then(
      () => true,
      () => false,
    )
  if (await isWorking()) return false
  await removeFiles()
  return !(await isWorking())
}

/**
 * Removes everything on the disk that an agent could have filled: sandboxes, volumes, collected and unpacked artifacts.
 * Done only when the trial cannot continue.
 */
async function removeAgentFiles(started: StartedResources, stepFolder: string, outputFolder: string): Promise<void> {
  await Promise.allSettled([...started.removals, ...[...started.sandboxes].map((sandbox) => sandbox.remove())])
  await Promise.allSettled(started.networks.map((network) => network.remove()))
  const trialFolder = dirname(stepFolder)
  for (const name of await readdir(trialFolder)) {
    await removeTree(join(trialFolder, name))
    await mkdir(join(trialFolder, name))
  }
  await removeTree(join(outputFolder, 'artifacts'))
}

/** Less free space than this counts as a full disk. */
const FREE_BYTES_MIN = 64 * 1024 * 1024

async function isDiskUsable(folder: string): Promise<boolean> {
  const path = join(folder, '.disk-probe')
  try {
    const { bavail, bsize } = await statfs(folder)
    if (bavail * bsize < FREE_BYTES_MIN) return false
    await using file = await open(path, 'w')
    await file.writeFile(Buffer.alloc(4096))
    await file.sync()
    return true
  } catch {
    return false
  } finally {
    await rm(path, { force: true }).catch(() => {})
  }
}
