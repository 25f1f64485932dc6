import { type PrepareOptions, SandboxUnavailable } from '../sandbox.ts'

/** Prepares an image with a signal that also aborts at the timeout, which is then the reason of the failure. */
export async function prepareInTime<T>(
  options: PrepareOptions,
  prepare: (options: PrepareOptions) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(options.timeoutSec * 1000)
  try {
    return await prepare({ ...options, signal: AbortSignal.any([options.signal, timeout]) })
  } catch (error) {
    if (!timeout.aborted || options.signal.aborted) throw error
    throw new SandboxUnavailable(`The image was not ready after ${options.timeoutSec} seconds.`, { cause: error })
  }
}

/** Builds that are under way in this process. */
const RUNNING_BUILDS = new Map<string, Promise<unknown>>()

type SharedBuild<T> = {
  find: () => Promise<T | undefined>
  build: () => Promise<T>
  signal: AbortSignal
}

/** Builds an image once, also for concurrent requests. If another builder of it is canceled, this one builds it. */
export async function buildOnce<T>(id: string, shared: SharedBuild<T>): Promise<T> {
  const known = await shared.find()
  if (known !== undefined) return known
  shared.signal.throwIfAborted()
  const running = RUNNING_BUILDS.get(id)
  if (running) {
    await running.catch(() => {})
    return buildOnce(id, shared)
  }
  const building = shared.build()
  RUNNING_BUILDS.set(id, building)
  try {
    return await building
  } finally {
    RUNNING_BUILDS.delete(id)
  }
}
