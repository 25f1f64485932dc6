import { setTimeout as sleep } from 'node:timers/promises'
import { type Outbound, OutboundFailed, type OutboundInit, OutboundRefused } from '../../platform/outbound/outbound.ts'
import { backoffMs, parseRetryAfterMs } from '../../platform/retry-delay.ts'
import { RegistryUnavailable } from './registry.ts'

/** Statuses below 500 that are worth a retry. */
const TRANSIENT_STATUSES = [408, 425, 429]

/**
 * Sends a request to a registry of the operator, which may have a private address; redirects may not lead to one. Throws
 * RegistryUnavailable for connection errors, statuses from 500 and transient statuses.
 */
export async function sendRegistryRequest(
  outbound: Outbound,
  url: string,
  init: Omit<OutboundInit, 'trust'>,
): Promise<Response> {
  const response = await outbound.fetch(url, { ...init, trust: 'operator' }).catch((error: unknown) => {
    throw toUnavailable(error)
  })
  if (response.status < 500 && !TRANSIENT_STATUSES.includes(response.status)) return response
  await response.body?.cancel()
  throw new RegistryUnavailable(`The registry answered ${response.status}.`, {
    retryAfterMs: parseRetryAfterMs(response.headers.get('retry-after'), Date.now()),
  })
}

/** Reads the body of a small response. */
export async function readResponseText(response: Response): Promise<string> {
  return response.text().catch((error: unknown) => {
    throw toUnavailable(error)
  })
}

/** Converts a connection error to RegistryUnavailable. Returns any other error unchanged. */
export function toUnavailable(error: unknown): unknown {
  if (error instanceof OutboundFailed)
    return new RegistryUnavailable(`The registry cannot be reached (${error.reason}).`)
  if (error instanceof OutboundRefused)
    return new RegistryUnavailable(`A request to the registry was refused (${error.reason}).`, { isPermanent: true })
  return error
}

/** Waits between attempts. Replaced in tests. */
export type RetryTimer = { pause: (ms: number, signal: AbortSignal) => Promise<void> }

export const retryTimer: RetryTimer = {
  pause: async (ms, signal) => {
    await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
  },
}

const ATTEMPTS_MAX = 4
/** Maximum pause. If the registry requests a longer one, the caller gets an error with the requested pause. */
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
      const pauseMs = attempt < ATTEMPTS_MAX ? computePauseMs(error, attempt) : undefined
      if (pauseMs === undefined) throw error
      await pause(pauseMs, signal)
    }
  }
}

/** Returns the pause before the next attempt, or undefined if a retry is pointless. */
function computePauseMs(error: unknown, failures: number): number | undefined {
  if (!(error instanceof RegistryUnavailable) || error.isPermanent) return undefined
  const requestedMs = error.retryAfterMs ?? 0
  return requestedMs > PAUSE_MAX_MS ? undefined : Math.max(requestedMs, backoffMs(failures, Math.random()))
}
