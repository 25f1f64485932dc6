import { RESUME_MS } from '../resumable-protocol.ts'
import type { Exit, LimitKind, SandboxSpec } from '../sandbox.ts'

/** Time from the time limit of a sandbox until it ends itself. Its worker ends it before, and reports the limit. */
const SPARE_SECONDS = 10

/**
 * Returns the seconds after which a sandbox ends by itself, in case its worker has died. An adoptable one may wait for the
 * next worker, which does not count that time.
 */
export const computeSelfEndSeconds = ({ limits, isAdoptable }: Pick<SandboxSpec, 'limits' | 'isAdoptable'>): number =>
  Math.ceil(limits.seconds) + SPARE_SECONDS + (isAdoptable ? RESUME_MS / 1000 : 0)

/** Exit code of a process that was killed by SIGKILL, as shells report it. */
export const KILLED_CODE = 137

/** The limit that a sandbox exceeded, or `kill` if the caller ended it. */
export type SandboxStopReason = 'seconds' | 'disk' | 'kill'

/** Observations about a sandbox that has ended. */
export type SandboxEnding = {
  /** Reason why the provider ended the sandbox. Undefined if the sandbox ended by itself. */
  stopReason: SandboxStopReason | undefined
  code: number | undefined
  /** Number of processes that the kernel killed for memory, and number of processes that it refused to start. */
  hits: { memory: number; pids: number }
  diskFull: boolean
  outputBytes: number
  outputMaxBytes: number
  seconds: number
}

/** Builds the exit report. A limit is reported only for a failure, except truncated output, which is always reported. */
export function toExit(ending: SandboxEnding): Exit {
  const { stopReason, outputBytes, seconds } = ending
  const code = stopReason === undefined ? (ending.code ?? null) : null
  const exit = { code, limit: findLimit(ending, code), seconds, outputBytes }
  const starvedOf = findStarvedResource(ending)
  return starvedOf === undefined ? exit : { ...exit, starvedOf }
}

function findStarvedResource({ hits, diskFull }: SandboxEnding): Exit['starvedOf'] {
  if (hits.memory > 0) return 'memory'
  if (diskFull) return 'disk'
  return hits.pids > 0 ? 'pids' : undefined
}

function findLimit(ending: SandboxEnding, code: number | null): LimitKind | null {
  const { stopReason, outputBytes, outputMaxBytes } = ending
  if (stopReason === 'seconds' || stopReason === 'disk') return stopReason
  const starvedOf = code !== 0 && stopReason === undefined ? findStarvedResource(ending) : undefined
  if (starvedOf !== undefined) return starvedOf
  return outputBytes > outputMaxBytes ? 'output' : null
}

/** Parses an exit code strictly: an integer from 0 to 255. Returns undefined for anything else. */
export function parseExitCode(text: string | undefined): number | undefined {
  const code = /^\d{1,3}$/.test(text ?? '') ? Number(text) : undefined
  return code !== undefined && code <= 255 ? code : undefined
}
