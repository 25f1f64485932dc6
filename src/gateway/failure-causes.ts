/** Matches errors about the key or its account, which providers word in many ways. No retry resolves them. */
const CREDENTIAL_ERROR =
  /credit balance is too low|insufficient_quota|insufficient[ _]balance|api_key_invalid|api key not valid|invalid_api_key|billing_not_active|account.{0,20}(deactivated|suspended)/i

/** Matches a 429 for a request that exceeds the account's limit per minute. It fails however long the gateway waits. */
const TOO_LARGE = /request too large/i

/** Classifies a failed response by its status and body alone. */
export function classifyFailure(
  status: number,
  body: string,
): 'credential' | 'model' | 'request' | 'rate' | 'upstream' {
  if (status === 401 || status === 402 || status === 403) return 'credential'
  if (status >= 400 && status < 500 && CREDENTIAL_ERROR.test(body)) return 'credential'
  if (status === 404) return 'model'
  if (status === 429 && TOO_LARGE.test(body)) return 'request'
  if (status === 429) return 'rate'
  if (status >= 400 && status < 500) return 'request'
  return 'upstream'
}

/** Maximum number of concurrent calls that an agent loop and its subagents need. */
const CONCURRENT_CALLS_MAX = 8

type TimedCall = { id: string; startedAt: Date; settledAt: Date | null }

/**
 * Classifies what a grant was doing while one of its calls was rate-limited. `flooding`: more concurrent calls than any
 * agent needs. `alone`: no other call within the window, so that earlier usage no longer counts. `busy`: anything between.
 * Time is measured from the rejected call, because clocks of other machines differ.
 */
export function classifyConcurrency(
  calls: readonly TimedCall[],
  refused: { id: string; elapsedMs: number },
  windowMs: number,
): 'flooding' | 'alone' | 'busy' {
  const refusedCall = calls.find(({ id }) => id === refused.id)
  const since = (refusedCall?.startedAt.getTime() ?? 0) + refused.elapsedMs - windowMs
  const recent = calls.filter(({ settledAt }) => settledAt === null || settledAt.getTime() > since)
  if (countMostConcurrent(recent) > CONCURRENT_CALLS_MAX) return 'flooding'
  return recent.every(({ id }) => id === refused.id) ? 'alone' : 'busy'
}

/**
 * Returns the largest number of calls that were open at the same time. A call that ends when another begins does not
 * overlap it.
 */
function countMostConcurrent(calls: readonly TimedCall[]): number {
  const changes = calls
    .flatMap(({ startedAt, settledAt }) => [
      { at: startedAt.getTime(), by: 1 },
      ...(settledAt ? [{ at: settledAt.getTime(), by: -1 }] : []),
    ])
    .sort((one, other) => one.at - other.at || one.by - other.by)
  let [open, most] = [0, 0]
  for (const { by } of changes) {
    open += by
    most = Math.max(most, open)
  }
  return most
}
