import { type Outbound, OutboundFailed, type OutboundInit, OutboundRefused } from '../../platform/outbound/outbound.ts'
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
    retryAfterMs: parseRetryAfter(response.headers.get('retry-after')),
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

/** Parses a Retry-After header: seconds or a date. */
function parseRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}
