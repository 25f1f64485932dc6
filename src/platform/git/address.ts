import { lookup } from 'node:dns/promises'
import { refuseUrl } from '../outbound/outbound.ts'
import type { PinnedServer } from '../outbound/pinned-proxy.ts'
import { resolvePublicHost } from '../outbound/public-host.ts'
import { hostOf } from '../outbound/url-rules.ts'

/** Resolves a name. Replaced in tests. */
export type ResolveName = (host: string) => Promise<string[]>

export const resolveName: ResolveName = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** Result of checking an address. Do not show `reason` to a workspace: it discloses which internal names exist. */
export type AddressAdmission =
  | { kind: 'admitted'; url: string; pin: PinnedServer }
  | { kind: 'refused'; host: string; reason: 'address' | 'private' | 'unresolved' }

/** Checks an https URL from a client. git must use the returned URL and connect only to the addresses in `pin`. */
export async function admitAddress(url: string, resolve: ResolveName): Promise<AddressAdmission> {
  const parsed = new URL(url)
  const host = hostOf(parsed)
  const isRefused = refuseUrl(url, 'client') !== undefined || parsed.search !== '' || parsed.hash !== ''
  if (isRefused) return { kind: 'refused', host, reason: 'address' }
  const resolved = await resolvePublicHost(host, resolve)
  if (resolved.kind !== 'public')
    return { kind: 'refused', host, reason: resolved.kind === 'unknown' ? 'unresolved' : 'private' }
  const pin = { host, port: Number(parsed.port || 443), addresses: resolved.addresses }
  return { kind: 'admitted', url: parsed.href, pin }
}
