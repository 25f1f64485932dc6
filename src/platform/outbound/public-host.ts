import { isIP } from 'node:net'
import { createResolve, type Resolve } from './resolve-name.ts'
import { isPublicAddress, mayBePublic } from './url-rules.ts'

export type { Resolve } from './resolve-name.ts'

type HostResolution =
  | { kind: 'public'; addresses: string[] }
  | { kind: 'refused'; reason: 'host_not_public' | 'address_not_public' }
  | { kind: 'unknown' }

/** Resolves an untrusted host to public addresses. Connect to these, because the name may resolve differently later. */
export async function resolvePublicHost(
  host: string,
  resolve: Resolve,
  isAllowed: (address: string) => boolean = isPublicAddress,
): Promise<HostResolution> {
  if (!mayBePublic(host)) return { kind: 'refused', reason: 'host_not_public' }
  const addresses = isIP(host) === 0 ? await resolve(host).catch(() => []) : [host]
  if (addresses.length === 0) return { kind: 'unknown' }
  if (!addresses.every(isAllowed)) return { kind: 'refused', reason: 'address_not_public' }
  return { kind: 'public', addresses }
}

/** Looks up a host name in the way of this machine. */
export const resolveName: Resolve = createResolve()

const CACHED_MS = 15_000
const NAMES_MAX = 1000

/** Caches lookups, for callers that need the same few names many times a second. */
export function cacheLookups(resolve: Resolve): Resolve {
  const cache = new Map<string, { addresses: Promise<string[]>; until: number }>()
  return (host) => {
    const cached = cache.get(host)
    if (cached && cached.until > Date.now()) return cached.addresses
    if (cache.size >= NAMES_MAX) cache.clear()
    const addresses = resolve(host)
    cache.set(host, { addresses, until: Date.now() + CACHED_MS })
    addresses.catch(() => cache.delete(host)) // Failures are not cached.
    return addresses
  }
}
