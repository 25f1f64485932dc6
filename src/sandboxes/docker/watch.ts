import { combineWatches, type DiskWatch, NO_WATCH, watchFolders } from '../kernel/disk.ts'
import { KILLED_CODE, parseExitCode, type SandboxStopReason, toExit } from '../kernel/exit.ts'
import { type Exit, MEGABYTE, SandboxUnavailable } from '../sandbox.ts'
import { type Docker, EngineRefusal, ignoring } from './client.ts'
import { ENGINE_FILES, type RunningContainer, statIn } from './container.ts'
import type { DockerEngine } from './engine.ts'

type WatchedContainer = {
  exited: Promise<Exit>
  kill(): Promise<void>
  isOver(): boolean
  /** Stops watching. The container continues to run. */
  leave(): Promise<void>
}

const SIZE_POLL_MS = 2000
const SIZE_REFUSALS_MAX = 3
/** Timeout for the end of a killed container, which usually takes much less. */
const KILL_TIMEOUT_MS = 60_000

/** Waits for the end of a container and enforces its time and disk limits. */
export function watchContainer(running: RunningContainer): WatchedContainer {
  const { engine, spec, container } = running
  const startedAt = performance.now()
  let stopReason: SandboxStopReason | undefined
  let isOver = false
  let isLeft = false
  const left = createRejection()
  const killTimeout = createRejection()
  let killTimer: NodeJS.Timeout | undefined

  const stop = async (reason: SandboxStopReason): Promise<void> => {
    if (isOver || isLeft) return
    stopReason ??= reason
    killTimer ??= setTimeout(() => killTimeout.reject(toKillFailure(spec.id)), KILL_TIMEOUT_MS)
    await engine.docker.call('POST', `/containers/${container.id}/kill`).catch(ignoring(404, 409))
  }
  const stopOrLog = (reason: SandboxStopReason) => (): void =>
    void stop(reason).catch((error: unknown) =>
      engine.log.warn({ error, sandbox: spec.id }, 'could not kill a sandbox'),
    )
  const timer = setTimeout(stopOrLog('seconds'), Math.max(0, spec.limits.seconds - running.elapsedSeconds) * 1000)
  const disk = watchDiskUse(running, stopOrLog('disk'))

  const observeExit = async (): Promise<Exit> => {
    try {
      const { bytes } = await Promise.race([running.output, killTimeout.promise, left.promise])
      const { code, outOfMemory } = await Promise.race([waitForEnd(running), left.promise])
      isOver = true
      const hits = { memory: outOfMemory ? 1 : 0, pids: running.refusedProcesses.read() }
      const seconds = running.elapsedSeconds + (performance.now() - startedAt) / 1000
      const diskFull = await disk.isFull()
      const output = { outputBytes: bytes, outputMaxBytes: spec.limits.outputBytes }
      return toExit({ stopReason, code, hits, seconds, diskFull, ...output })
    } finally {
      isOver = true
      clearTimeout(timer)
      clearTimeout(killTimer)
      disk.stop()
      running.refusedProcesses.stop()
      await (isLeft ? running.ports.leave() : running.ports.close())
    }
  }
  const exited = observeExit()
  exited.catch(() => {}) // reported when `exited` is awaited
  const leave = async (): Promise<void> => {
    isLeft = true
    left.reject(new SandboxUnavailable(`Sandbox ${spec.id} was left to another process.`))
    running.stream.destroy()
    await exited.catch(() => {})
  }
  return { exited, kill: () => stop('kill'), isOver: () => isOver, leave }
}

/** Returns a promise that is only awaited together with others, and the function that rejects it. */
function createRejection(): { promise: Promise<never>; reject(error: Error): void } {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => {})
  return { promise, reject }
}

const toKillFailure = (id: string): SandboxUnavailable =>
  new SandboxUnavailable(`Sandbox ${id} was killed, and the Docker engine does not end it.`)

type ContainerState = { State: { OOMKilled: boolean; ExitCode: number; Error: string } }

/** Waits for the end of a container. The engine answers when all processes are dead. */
async function waitForEnd({
  engine,
  container,
  spec,
}: RunningContainer): Promise<{ code: number | undefined; outOfMemory: boolean }> {
  const path = `/containers/${container.id}`
  try {
    const { StatusCode } = await engine.docker.call<{ StatusCode: number }>('POST', `${path}/wait`, {
      timeoutMs: spec.limits.seconds * 1000 + KILL_TIMEOUT_MS,
    })
    const code = parseExitCode(String(StatusCode))
    const { State } = await engine.docker.call<ContainerState>('GET', `${path}/json`)
    const mayBeLate = code === KILLED_CODE && !State.OOMKilled
    return { code, outOfMemory: State.OOMKilled || (mayBeLate && (await wasOutOfMemory(engine, container.id))) }
  } catch (error) {
    throw new SandboxUnavailable(`The Docker engine lost sandbox ${spec.id}: ${String(error)}`, { cause: error })
  }
}

const OOM_EVENT_DELAY_MS = 500

/** Looks for an out-of-memory event. The engine may learn of it only after it has reported the end. */
async function wasOutOfMemory({ docker }: DockerEngine, id: string): Promise<boolean> {
  const filters = JSON.stringify({ container: [id], event: ['oom'] })
  const until = ((Date.now() + OOM_EVENT_DELAY_MS) / 1000).toFixed(3)
  const signal = AbortSignal.timeout(2 * OOM_EVENT_DELAY_MS)
  try {
    const answer = await docker.open('GET', '/events', { query: { since: 1, until, filters }, signal, timeoutMs: null })
    for await (const _event of answer) return true
    return false
  } catch (error) {
    if (!signal.aborted) throw error
    return false // the clock of the engine may be behind ours
  }
}

function watchDiskUse({ spec, container, engine }: RunningContainer, onFull: () => void): DiskWatch {
  const { diskMb } = spec.limits
  const shared = spec.mounts.flatMap((mount) => (mount.kind === 'folder' && !mount.readOnly ? [mount.source] : []))
  const watch = (folders: string[]): DiskWatch =>
    watchFolders({ folders, maxMb: diskMb, processes: async () => [] }, onFull)
  if (container.layers !== undefined) return watch([container.layers.upper, ...shared, ...container.engineFiles])
  const watchedVolumes = container.volumes.length > 0 ? watch([...shared, ...container.volumes]) : NO_WATCH
  let isFull = false
  let refusals = 0
  const measure = async (): Promise<void> => {
    const bytes = await readSize(engine.docker, container.id)
    refusals = 0
    if (bytes > diskMb * MEGABYTE) reportFull()
  }
  const reportFull = (): void => {
    if (!isFull) onFull()
    isFull = true
  }
  // An agent can make the engine refuse to measure the container, for example by replacing /etc. Several refusals in a
  // row count as a full disk. Requests that the engine does not answer at all do not count.
  const countRefusal = (error: unknown): void => {
    if (error instanceof EngineRefusal) refusals += 1
    if (refusals >= SIZE_REFUSALS_MAX) reportFull()
  }
  const timer = setInterval(() => void measure().catch(countRefusal), SIZE_POLL_MS)
  return combineWatches({ stop: () => clearInterval(timer), isFull: async () => isFull }, watchedVolumes)
}

/** Returns the bytes that a container has written, including files that the engine mounts and does not count itself. */
async function readSize(docker: Docker, id: string): Promise<number> {
  const query = { size: true }
  const { SizeRw = 0, State } = await docker.call<SizedContainer>('GET', `/containers/${id}/json`, { query })
  if (!State.Running) return SizeRw
  const files = await Promise.all(ENGINE_FILES.map((path) => statIn(docker, id, path)))
  return files.reduce((sum, file) => sum + (file?.isFile ? file.bytes : 0), SizeRw)
}

type SizedContainer = { SizeRw?: number; State: { Running: boolean } }
