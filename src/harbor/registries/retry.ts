import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../platform/jobs/backoff.ts'
import { RegistryUnavailable } from './registry.ts'

/** Waits between attempts. Replaced in tests. */
export type RetryTimer = { pause: (ms: number, signal: AbortSignal) => Promise<void> }

export const retryTimer: RetryTimer = {
  pause: async (ms, signal) => {
    await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
  },
}

const ATTEMPTS_MAX = 4
/** Longer pauses are not waited for: the error, with the requested pause, is returned to the caller. */
const PAUSE_MAX_MS = 60_000

/** Retries while the registry is temporarily unavailable, with backoff and respecting Retry-After. */
export async function retryUnavailable<Result>(
  work: () => Promise<Result>,
  { pause }: RetryTimer,
  signal: AbortSignal,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      const pauseMs = attempt < ATTEMPTS_MAX ? computePause(error, attempt) : undefined
      if (pauseMs === undefined) throw error
      await pause(pauseMs, signal)
    }
  }
}

/** Returns the pause before the next attempt, or undefined if a retry is pointless. */
function computePause(error: unknown, failures: number): number | undefined {
  if (!(error instanceof RegistryUnavailable) || error.isPermanent) return undefined
  const requestedMs = error.retryAfterMs ?? 0
  return requestedMs > PAUSE_MAX_MS ? undefined : Math.max(requestedMs, backoffMs(failures, Math.random()))
}
