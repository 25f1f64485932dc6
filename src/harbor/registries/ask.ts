import { type Outbound, OutboundFailed, type OutboundInit, OutboundRefused } from '../../platform/outbound/outbound.ts'
import { RegistryUnavailable } from './registry.ts'

/** Worth another try, although the server did answer. */
const PASSING = [408, 425, 429]

/**
 * One request to an address that the operator configured: it may be private, its redirects may not. Answers that
 * mean something come back; everything else is RegistryUnavailable.
 */
export async function ask(outbound: Outbound, url: string, init: Omit<OutboundInit, 'trust'>): Promise<Response> {
  const response = await outbound.fetch(url, { ...init, trust: 'operator' }).catch((error: unknown) => {
    throw asUnavailable(error)
  })
  if (response.status < 500 && !PASSING.includes(response.status)) return response
  await response.body?.cancel()
  const retryAfterMs = waitOf(response.headers.get('retry-after'))
  throw new RegistryUnavailable(`It answered ${response.status}.`, retryAfterMs === undefined ? {} : { retryAfterMs })
}

/** The whole of a small answer. */
export async function textOf(response: Response): Promise<string> {
  return response.text().catch((error: unknown) => {
    throw asUnavailable(error)
  })
}

/** An error of the connection becomes ours; any other comes back as it was. */
export function asUnavailable(error: unknown): unknown {
  if (error instanceof OutboundFailed) return new RegistryUnavailable(`It cannot be reached (${error.reason}).`)
  if (error instanceof OutboundRefused)
    return new RegistryUnavailable(`A request to the registry was refused (${error.reason}).`, { isLasting: true })
  return error
}

/** Seconds, or a date. */
function waitOf(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\d{1,9}$/.test(header.trim())) return Number(header) * 1000
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}
