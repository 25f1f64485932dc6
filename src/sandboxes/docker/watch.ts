import { type DiskWatch, watchFolders } from '../kernel/disk.ts'
import { parseExitCode, type SandboxEnding, toExit } from '../kernel/explain.ts'
import { type Exit, SandboxUnavailable } from '../sandbox.ts'
import { type Docker, EngineRefusal, ignoring } from './client.ts'
import { ENGINE_FILES, type RunningContainer, statIn } from './container.ts'
import type { DockerEngine } from './engine.ts'

export type WatchedContainer = { exited: Promise<Exit>; kill(): Promise<void>; isOver(): boolean }

const ASK_SIZE_MS = 2000
const SIZE_REFUSALS_MAX = 3
/** Timeout for the end of a killed container, which usually takes much less. */
const DEATH_MS = 60_000
const MEGABYTE = 1024 * 1024

/** Waits for the end of a container and enforces its time and disk limits. */
export function watchContainer(running: RunningContainer): WatchedContainer {
  const { engine, spec, container } = running
  const startedAt = performance.now()
  let stopped: SandboxEnding['stopped']
  let over = false

  const overdue = Promise.withResolvers<never>()
  overdue.promise.catch(() => {})
  let death: NodeJS.Timeout | undefined

  const stop = async (reason: NonNullable<SandboxEnding['stopped']>): Promise<void> => {
    if (over) return
    stopped ??= reason
    death ??= setTimeout(() => overdue.reject(newKillFailure(spec.id)), DEATH_MS)
    await engine.docker.call('POST', `/containers/${container.id}/kill`).catch(ignoring(404, 409))
  }
  const quietly = (reason: NonNullable<SandboxEnding['stopped']>) => (): void =>
    void stop(reason).catch((error: unknown) =>
      engine.log.warn({ error, sandbox: spec.id }, 'could not kill a sandbox'),
    )
  const clock = setTimeout(quietly('seconds'), spec.limits.seconds * 1000)
  const disk = watchDiskUse(running, quietly('disk'))

  const observeExit = async (): Promise<Exit> => {
    try {
      const { bytes } = await Promise.race([running.output, overdue.promise])
      const { code, outOfMemory } = await readEnd(running)
      over = true
      const hits = { memory: outOfMemory ? 1 : 0, pids: running.hits.look() }
      const seconds = (performance.now() - startedAt) / 1000
      const diskFull = await disk.isFull()
      return toExit({
        stopped,
        code,
        hits,
        seconds,
        diskFull,
        outputBytes: bytes,
        outputMaxBytes: spec.limits.outputBytes,
      })
    } finally {
      over = true
      clearTimeout(clock)
      clearTimeout(death)
      disk.stop()
      running.hits.stop()
      await running.ports.close()
    }
  }
  const exited = observeExit()
  exited.catch(() => {}) // reported when `exited` is awaited
  return { exited, kill: () => stop('kill'), isOver: () => over }
}

const newKillFailure = (id: string): SandboxUnavailable =>
  new SandboxUnavailable(`Sandbox ${id} was killed, and the Docker engine does not end it.`)

type ContainerState = { State: { OOMKilled: boolean; ExitCode: number; Error: string } }

/** Waits for the end of a container. The engine answers when all processes are dead. */
async function readEnd({
  engine,
  container,
  spec,
}: RunningContainer): Promise<{ code: number | undefined; outOfMemory: boolean }> {
  const path = `/containers/${container.id}`
  try {
    const { StatusCode } = await engine.docker.call<{ StatusCode: number }>('POST', `${path}/wait`, {
      timeoutMs: spec.limits.seconds * 1000 + DEATH_MS,
    })
    const code = parseExitCode(String(StatusCode))
    if (code === 0) return { code, outOfMemory: false }
    const { State } = await engine.docker.call<ContainerState>('GET', `${path}/json`)
    const mayBeLate = code === KILLED && !State.OOMKilled
    return { code, outOfMemory: State.OOMKilled || (mayBeLate && (await wasOutOfMemory(engine, container.id))) }
  } catch (error) {
    throw new SandboxUnavailable(`The Docker engine lost sandbox ${spec.id}: ${String(error)}`, { cause: error })
  }
}

const KILLED = 137
const LATE_MS = 500

/** Looks for an out-of-memory event. The engine may learn of it only after it has reported the end. */
async function wasOutOfMemory({ docker }: DockerEngine, id: string): Promise<boolean> {
  const filters = JSON.stringify({ container: [id], event: ['oom'] })
  const until = ((Date.now() + LATE_MS) / 1000).toFixed(3)
  const signal = AbortSignal.timeout(2 * LATE_MS)
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
  if (container.layers !== undefined) {
    const shared = spec.mounts.flatMap((mount) => (mount.kind === 'folder' && !mount.readOnly ? [mount.source] : []))
    const folders = [container.layers.upper, ...shared, ...container.engineFiles]
    return watchFolders({ folders, maxMb: diskMb, processes: async () => [] }, onFull)
  }
  let full = false
  let refusals = 0
  const measure = async (): Promise<void> => {
    const bytes = await readSize(engine.docker, container.id)
    refusals = 0
    if (bytes > diskMb * MEGABYTE) reportFull()
  }
  const reportFull = (): void => {
    if (!full) onFull()
    full = true
  }
  // An agent can make the engine refuse to look, for example by replacing /etc. Disk use that cannot be measured several
  // times in a row counts as too much; an engine that does not answer at all does not.
  const countRefusal = (error: unknown): void => {
    if (error instanceof EngineRefusal) refusals += 1
    if (refusals >= SIZE_REFUSALS_MAX) reportFull()
  }
  const timer = setInterval(() => void measure().catch(countRefusal), ASK_SIZE_MS)
  return { stop: () => clearInterval(timer), isFull: async () => full }
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
