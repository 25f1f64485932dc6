import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A host that the operator allows for builds, public or not. Null as port allows the usual ports. */
export type AllowedHost = { host: string; port: number | null }

/** Tests whether a destination is listed. Names match names and addresses match addresses; `*.` matches subdomains only. */
export function covers(entry: string, host: string): boolean {
  if (entry.includes('/')) return isInRange(host, entry)
  if (entry.startsWith('*.')) return isIP(host) === 0 && host.endsWith(entry.slice(1))
  return host === entry
}

function isInRange(host: string, range: string): boolean {
  if (isIP(host) === 0) return false
  const address = ipaddr.parse(host)
  const [first, bits] = ipaddr.parseCIDR(range)
  return address.kind() === first.kind() && address.match(first, bits)
}
