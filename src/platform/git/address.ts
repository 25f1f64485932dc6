import { lookup } from 'node:dns/promises'
import { refuseUrl } from '../outbound/outbound.ts'
import type { PinnedServer } from '../outbound/pinned-proxy.ts'
import { resolvePublicHost } from '../outbound/public-host.ts'
import { hostOf } from '../outbound/url-rules.ts'

/** Resolves a name. Replaced in tests. */
export type ResolveName = (host: string) => Promise<string[]>

export const resolveName: ResolveName = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** Result of checking an address. Do not show `because` to a workspace: it discloses which internal names exist. */
export type AddressAdmission =
  | { kind: 'admitted'; url: string; pin: PinnedServer }
  | { kind: 'refused'; host: string; because: 'address' | 'private' | 'unresolved' }

/** Checks an https address that a client chose. git gets the parsed form and connects only to the addresses checked. */
export async function admitAddress(url: string, resolve: ResolveName): Promise<AddressAdmission> {
  const parsed = new URL(url)
  const host = hostOf(parsed)
  const isRefused = refuseUrl(url, 'client') !== undefined || parsed.search !== '' || parsed.hash !== ''
  if (isRefused) return { kind: 'refused', host, because: 'address' }
  const found = await resolvePublicHost(host, resolve)
  if (found.kind !== 'public')
    return { kind: 'refused', host, because: found.kind === 'unknown' ? 'unresolved' : 'private' }
  const pin = { host, port: Number(parsed.port || 443), addresses: found.addresses }
  return { kind: 'admitted', url: parsed.href, pin }
}
