import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { KILLED_CODE, type SandboxStopReason, toExit } from '../kernel/exit.ts'
import { type ExecSpec, type Exit, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { type CommandSpec, type RunningCommand, startCommand } from './command.ts'
import { openAttach } from './exec-stream.ts'
import { describeEnd, findPod, type PodStatus } from './pods.ts'

export type WatchedPod = {
  exited: Promise<Exit>
  kill(): Promise<void>
  exec(spec: ExecSpec): Promise<Exit>
  /** True when the cluster has removed the files of the sandbox. */
  isGone(): boolean
  /** Stops watching. The sandbox continues to run. */
  leave(): Promise<void>
}

/** Completes a command with the settings of the sandbox. */
export type CommandBuilder = (command: string[], overrides: CommandOverrides) => CommandSpec
type CommandOverrides = Partial<Pick<ExecSpec, 'user' | 'workdir' | 'env' | 'input'>> &
  Partial<Pick<CommandSpec, 'output' | 'seconds'>>

type WatchOptions = {
  cluster: Cluster
  spec: SandboxSpec
  name: string
  supervisor: Supervisor
  /** Undefined for a sandbox that runs only added commands. */
  command: RunningCommand | undefined
  /** Seconds since the start of the command. */
  elapsedSeconds: number
  toCommand: CommandBuilder
  /** Called when all processes are dead. */
  onEnd(): Promise<void>
}

/** Waits for the end of a sandbox, enforces its time limit, and runs added commands. */
export function watchPod(options: WatchOptions): WatchedPod {
  const { spec, supervisor, command, elapsedSeconds } = options
  const startedAt = performance.now() - elapsedSeconds * 1000
  const state = { stopReason: undefined as SandboxStopReason | undefined, isOver: false, isGone: false, isLeft: false }
  const stopRequest = Promise.withResolvers<undefined>()
  const stop = (reason: SandboxStopReason): void => {
    state.stopReason ??= reason
    stopRequest.resolve(undefined)
  }
  const timer = setTimeout(() => stop('seconds'), Math.max(0, spec.limits.seconds - elapsedSeconds) * 1000)
  const secondsSince = (start: number): number => (performance.now() - start) / 1000

  const observeExit = async (): Promise<Exit> => {
    try {
      const ended = await Promise.race([command?.ended ?? stopRequest.promise, stopRequest.promise, supervisor.lost])
      const seconds = secondsSince(startedAt)
      const { oomKills } = await supervisor.endAll()
      const { bytes } = ended ?? (await command?.stopReading()) ?? { bytes: 0 }
      await options.onEnd()
      return toExit({
        stopReason: state.stopReason,
        code: ended?.code,
        hits: { memory: oomKills, pids: 0 },
        diskFull: false,
        outputBytes: bytes,
        outputMaxBytes: spec.limits.outputBytes,
        seconds,
      })
    } catch (error) {
      if (state.isLeft) throw error
      const limitExit = await explainLostConnection(options, error)
      state.isGone = true
      const { bytes } = (await command?.stopReading()) ?? { bytes: 0 }
      return { ...limitExit, seconds: secondsSince(startedAt), outputBytes: bytes }
    } finally {
      state.isOver = true
      clearTimeout(timer)
    }
  }
  const exited = observeExit()
  exited.catch(() => {}) // reported when it is awaited
  return {
    exited,
    isGone: () => state.isGone,
    async kill() {
      stop('kill')
      await exited.catch(() => {})
    },
    async leave() {
      state.isLeft = true
      stopRequest.reject(new SandboxUnavailable(`Sandbox ${spec.id} was left to another process.`))
      await exited.catch(() => {})
    },
    async exec(exec) {
      if (state.isOver || state.stopReason) throw new SandboxUnavailable(`Sandbox ${spec.id} has ended.`)
      const start = performance.now()
      await supervisor.repair()
      const result = await runExecCommand(options, exec)
      // The end of the sandbox kills the command, whose exit code then means nothing.
      return { ...result, code: state.stopReason ? null : result.code, seconds: secondsSince(start) }
    },
  }
}

/** Runs an added command. The end of the sandbox ends it too. */
async function runExecCommand(
  { cluster, name, toCommand }: WatchOptions,
  exec: ExecSpec,
): Promise<Omit<Exit, 'seconds'>> {
  const { command, outputFile, limits } = exec
  const output = { file: outputFile, maxBytes: limits.outputBytes }
  const running = await startCommand(
    cluster,
    name,
    toCommand(command, { ...exec, output, seconds: limits.seconds + 1 }),
  )
  const timer = new AbortController()
  const timeout = wait(limits.seconds * 1000, undefined, { signal: timer.signal }).catch(() => undefined)
  const ended = await Promise.race([running.ended, timeout]).finally(() => timer.abort())
  if (ended === undefined) return { code: null, limit: 'seconds', outputBytes: (await running.stopReading()).bytes }
  const { code, bytes } = ended
  return { code, limit: bytes > limits.outputBytes ? 'output' : null, outputBytes: bytes }
}

/** Time that the cluster may take to report the end of a pod. */
const END_REPORT_TIMEOUT_MS = 5000

/** Explains why the connection to a sandbox was lost. Throws unless the sandbox itself ran into a limit. */
async function explainLostConnection(
  { cluster, name }: WatchOptions,
  error: unknown,
): Promise<Pick<Exit, 'code' | 'limit'>> {
  const deadline = performance.now() + END_REPORT_TIMEOUT_MS
  // The cluster reports the end of a pod a moment after its streams have ended.
  while (performance.now() < deadline) {
    const pod = await findPod(cluster, name)
    if (pod === undefined) throw error
    const limit = findPodLimit(pod.status)
    if (limit !== undefined) return limit
    if (pod.status.phase === 'Failed' || pod.status.phase === 'Succeeded')
      throw new SandboxUnavailable(`The cluster ended a sandbox: ${describeEnd(pod.status)}`, { cause: error })
    await wait(250)
  }
  throw error
}

/** Returns the limit that a sandbox exceeded by itself. A node that evicts it for other reasons is an outage. */
export function findPodLimit(status: PodStatus): Pick<Exit, 'code' | 'limit'> | undefined {
  const { reason, message = '' } = status
  if (reason === 'Evicted' && /exceed.*(ephemeral|limit)/i.test(message)) return { code: null, limit: 'disk' }
  // The helper runs nothing of a task, but the connections and the output of the sandbox take its memory.
  if (status.containerStatuses?.some(({ state }) => state.terminated?.reason === 'OOMKilled'))
    return { code: KILLED_CODE, limit: 'memory' }
  if (reason === 'DeadlineExceeded') return { code: null, limit: 'seconds' }
  return undefined
}

/** Controls the first process of a sandbox. Everything in it ends when this connection ends, unless it is adoptable. */
export type Supervisor = {
  /** Restores files that the runtime opens when it adds a command. */
  repair(): Promise<void>
  /** Kills all processes of the sandbox but the first. They are dead when this returns. */
  endAll(): Promise<{ oomKills: number }>
  /** Rejects when the connection is lost. Never resolves. */
  lost: Promise<never>
  close(): void
}

const ANSWER_TIMEOUT_MS = 60_000

export async function attachSupervisor(cluster: Cluster, pod: string): Promise<Supervisor> {
  const { kubernetes, namespace } = cluster
  const stream = await openAttach(kubernetes, { namespace, pod, container: MAIN })
  const lines = createInterface({ input: stream.output })[Symbol.asyncIterator]()
  const lost = stream.code.then(() => {
    throw new SandboxUnavailable('The first process of a sandbox has ended.')
  })
  lost.catch(() => {}) // reported when it is awaited

  let last: Promise<unknown> = Promise.resolve()
  /** Sends a line and returns its answer. Skips answers to another process, which may have died before it read them. */
  const sendRequest = (line: string, pattern: RegExp): Promise<RegExpExecArray> => {
    const answer = last.then(async () => {
      await stream.write(Buffer.from(`${line}\n`))
      return Promise.race([findAnswer(lines, pattern), lost, rejectAfterTimeout()])
    })
    last = answer.catch(() => {})
    return answer
  }
  await sendRequest('hello', /^hello$/)
  return {
    lost,
    close: () => stream.close(),
    async repair() {
      await sendRequest('repair', /^repaired$/)
    },
    async endAll() {
      return { oomKills: Number((await sendRequest('end', /^dead (\d+)$/))[1]) }
    },
  }
}

/** Reads lines until one matches. Never resolves if they end, because the connection is lost then. */
async function findAnswer(lines: AsyncIterator<string>, pattern: RegExp): Promise<RegExpExecArray> {
  for (let next = await lines.next(); !next.done; next = await lines.next()) {
    const found = pattern.exec(next.value)
    if (found) return found
  }
  return new Promise(() => {})
}

const rejectAfterTimeout = (): Promise<never> =>
  new Promise((_, reject) => {
    const timer = setTimeout(
      () => reject(new SandboxUnavailable('The first process of a sandbox does not answer.')),
      ANSWER_TIMEOUT_MS,
    )
    timer.unref()
  })
