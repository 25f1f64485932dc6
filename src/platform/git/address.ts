import { lookup } from 'node:dns/promises'
import { refuseUrl } from '../outbound/outbound.ts'
import type { PinnedServer } from '../outbound/pinned-proxy.ts'
import { publicHost } from '../outbound/public-host.ts'
import { hostOf } from '../outbound/url-rules.ts'

/** Name resolution is where the network begins; tests put their own there. */
export type ResolveName = (host: string) => Promise<string[]>

export const resolveName: ResolveName = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address)

/** `because` is for our own decisions. Shown to a workspace, it would disclose which internal names exist. */
export type Admission =
  | { kind: 'admitted'; url: string; pin: PinnedServer }
  | { kind: 'refused'; host: string; because: 'address' | 'private' | 'unresolved' }

/** Checks an https address that a client chose. git gets the parsed form and connects only to the addresses checked. */
export async function admitAddress(url: string, resolve: ResolveName): Promise<Admission> {
  const parsed = new URL(url)
  const host = hostOf(parsed)
  const isRefused = refuseUrl(url, 'client') !== undefined || parsed.search !== '' || parsed.hash !== ''
  if (isRefused) return { kind: 'refused', host, because: 'address' }
  const found = await publicHost(host, resolve)
  if (found.kind !== 'public')
    return { kind: 'refused', host, because: found.kind === 'unknown' ? 'unresolved' : 'private' }
  const pin = { host, port: Number(parsed.port || 443), addresses: found.addresses }
  return { kind: 'admitted', url: parsed.href, pin }
}
