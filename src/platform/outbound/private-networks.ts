import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { AddressRange } from '../http/client-address.ts'

/**
 * Trust of a URL that a workspace chose and whose private networks the operator allows. Redirects are judged without the
 * networks.
 */
export type NetworkTrust = { networks: readonly AddressRange[] }

/** Address kinds that an operator can allow. Link-local, multicast, unspecified and IPv4-in-IPv6 forms are never allowed. */
const ALLOWED_KINDS = ['loopback', 'private', 'uniqueLocal', 'carrierGradeNat', 'unicast']

/** Metadata services of clouds, which hand out credentials of the machine. They are refused whatever is allowed. */
const METADATA = ['168.63.129.16', '100.100.100.200', '192.0.0.192', 'fd00:ec2::254', 'fd20:ce::254']

/** Returns whether the address is in a network that the operator allows for models of the workspace. */
export function isInNetworks(address: string, { networks }: NetworkTrust): boolean {
  const version = isIP(address)
  if (version === 0) return false
  const parsed = ipaddr.parse(address)
  if (!ALLOWED_KINDS.includes(parsed.range()) || METADATA.includes(parsed.toString())) return false
  const allowed = new BlockList()
  for (const range of networks) allowed.addSubnet(range.address, range.prefixLength, range.family)
  return allowed.check(address, version === 6 ? 'ipv6' : 'ipv4')
}
