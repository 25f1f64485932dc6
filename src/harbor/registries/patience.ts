import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../platform/jobs/backoff.ts'
import { RegistryUnavailable } from './registry.ts'

/** How we wait. Tests bring their own. */
export type Patience = { pause: (ms: number, signal: AbortSignal) => Promise<void> }

export const patience: Patience = {
  pause: async (ms, signal) => {
    await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
  },
}

const ATTEMPTS_MAX = 4
/** Whoever asks for more has us come back another day: the caller is told how long. */
const PAUSE_MAX_MS = 60_000

/** Tries again while the registry is only unavailable for the moment, not sooner than it asks for. */
export async function patiently<Result>(
  work: () => Promise<Result>,
  { pause }: Patience,
  signal: AbortSignal,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      const pauseMs = attempt < ATTEMPTS_MAX ? pauseAfter(error, attempt) : undefined
      if (pauseMs === undefined) throw error
      await pause(pauseMs, signal)
    }
  }
}

/** Undefined when trying again soon is no use. */
function pauseAfter(error: unknown, failures: number): number | undefined {
  if (!(error instanceof RegistryUnavailable) || error.isLasting) return undefined
  const askedMs = error.retryAfterMs ?? 0
  return askedMs > PAUSE_MAX_MS ? undefined : Math.max(askedMs, backoffMs(failures, Math.random()))
}
