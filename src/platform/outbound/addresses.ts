import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3')

/** Azure's metadata service, although the address is in public space. */
const AZURE_METADATA = '168.63.129.16'

/**
 * Returns whether an untrusted party may make us connect to the address. IPv6 forms that contain an IPv4 address (mapped,
 * NAT64, 6to4, Teredo) are refused rather than unwrapped: public services do not need them, and each is one more way to
 * spell 127.0.0.1.
 */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast') return false

  // ipaddr.js reports unknown ranges as unicast, `::127.0.0.1` included.
  if (parsed instanceof ipaddr.IPv6) return parsed.match(GLOBAL_IPV6)
  return parsed.toString() !== AZURE_METADATA
}
