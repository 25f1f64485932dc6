export type RetryOptions = {
  /** Maximum number of retries of a request that can be repeated safely. Default: 4. */
  retries?: number | undefined
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch | undefined
}

const RETRIES = 4
const FIRST_DELAY_MS = 250
const DELAY_MAX_MS = 30_000

/**
 * Sends a request, and again after a lost connection, a rate limit or an outage. A rate limit refuses before anything
 * happens, so every request is repeated after it. Returns undefined if nothing answered.
 */
export async function requestWithRetries(
  url: URL,
  request: RequestInit,
  isRepeatable: boolean,
  { retries = RETRIES, fetch: send = fetch }: RetryOptions,
): Promise<Response | undefined> {
  for (let attempt = 0; ; attempt += 1) {
    const response = await send(url, request).catch((error: unknown) => {
      if (request.signal?.aborted || !(error instanceof TypeError)) throw error
      return undefined
    })
    const isLast = attempt >= retries
    if (isLast || !shouldRetry(response, isRepeatable)) return response
    await response?.body?.cancel()
    await delay(toDelay(response, attempt), request.signal ?? undefined)
  }
}

function shouldRetry(response: Response | undefined, isRepeatable: boolean): boolean {
  if (response?.status === 429) return true
  return isRepeatable && (response === undefined || [502, 503, 504].includes(response.status))
}

/** The service names the time to wait; otherwise it doubles, with jitter. */
function toDelay(response: Response | undefined, attempt: number): number {
  const seconds = Number(response?.headers.get('retry-after') ?? Number.NaN)
  const backoff = FIRST_DELAY_MS * 2 ** attempt * (0.5 + Math.random())
  return Math.min(Number.isFinite(seconds) ? seconds * 1000 : backoff, DELAY_MAX_MS)
}

/** Waits. Rejects when the signal is aborted. */
export const delay = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
