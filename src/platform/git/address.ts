import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isPublicAddress } from '../outbound/addresses.ts'
import { refuseUrl } from '../outbound/outbound.ts'

/** Name resolution is where the network begins; tests put their own there. */
export type ResolveName = (host: string) => Promise<string[]>

export const resolveName: ResolveName = async (host) =>
  (await lookup(host, { all: true })).map(({ address }) => address)

export type Admission =
  | { kind: 'admitted'; pin: string | undefined }
  | { kind: 'not_public'; host: string }
  | { kind: 'not_resolved'; host: string }

/** An https address that a client chose: it must be public, and git goes to the addresses that were checked. */
export async function admitAddress(url: string, resolve: ResolveName): Promise<Admission> {
  const { hostname: host, port } = new URL(url)
  if (refuseUrl(url, 'client')) return { kind: 'not_public', host }
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0) return { kind: 'admitted', pin: undefined }
  const addresses = await resolve(host).catch(() => undefined)
  if (addresses === undefined) return { kind: 'not_resolved', host }
  if (addresses.length === 0 || !addresses.every(isPublicAddress)) return { kind: 'not_public', host }
  const listed = addresses.map((address) => (isIP(address) === 6 ? `[${address}]` : address)).join(',')
  return { kind: 'admitted', pin: `${host}:${port || '443'}:${listed}` }
}
