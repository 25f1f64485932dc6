import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** A range of addresses, such as `10.0.0.0/8`. A single address is a range of one. */
export type AddressRange = { address: string; prefixLength: number; family: 'ipv4' | 'ipv6' }

/** Parses `10.0.0.1`, `10.0.0.0/8`, `::1` or `fd00::/8`. Returns undefined for anything else. */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [, address = '', length] = /^([0-9A-Fa-f:.]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const version = isIP(address)
  if (version === 0) return undefined
  const bits = version === 4 ? 32 : 128
  const prefixLength = Number(length ?? bits)
  return prefixLength <= bits ? { address, prefixLength, family: version === 4 ? 'ipv4' : 'ipv6' } : undefined
}

/**
 * Returns the function that reads a client's address from a request. `X-Forwarded-For` is untrusted input unless the
 * connection comes from a trusted proxy; then the address is the last entry that is not itself a trusted proxy.
 */
export function createClientAddressReader(trustedProxies: readonly AddressRange[]) {
  const trusted = new BlockList()
  for (const { address, prefixLength, family } of trustedProxies) trusted.addSubnet(address, prefixLength, family)
  const isTrusted = (address: string): boolean => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

  return ({ socket, headers }: IncomingMessage): string => {
    const peer = normalizeAddress(socket.remoteAddress ?? '') ?? 'unknown'
    if (trustedProxies.length === 0 || peer === 'unknown') return peer
    const forwarded = String(headers['x-forwarded-for'] ?? '').split(',')
    return resolveFirstUntrusted(peer, forwarded.reverse(), isTrusted)
  }
}

/** Walks from the connection towards the client, for as long as a trusted proxy says where the request came from. */
function resolveFirstUntrusted(peer: string, hops: readonly string[], isTrusted: (address: string) => boolean): string {
  let client = peer
  for (const hop of hops) {
    const previous = isTrusted(client) ? normalizeAddress(hop) : undefined
    if (previous === undefined) return client
    client = previous
  }
  return client
}

/** Strips whitespace, port, brackets, zone and the prefix of an IPv4-mapped address. Undefined: not an address. */
function normalizeAddress(text: string): string | undefined {
  const trimmed = text.trim()
  const [, bracketed] = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(trimmed) ?? []
  const [, withoutPort] = /^([\d.]+):\d{1,5}$/.exec(trimmed) ?? []
  const address = (bracketed ?? withoutPort ?? trimmed).replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')
  return isIP(address) === 0 ? undefined : address
}

/** Returns the name under which rate limits count a client. An IPv6 network of 64 bits is one client, which owns all of it. */
export function toRateLimitAddress(address: string): string {
  if (isIP(address) !== 6) return address
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const leading = head === '' ? [] : head.split(':')
  const trailing = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array.from({ length: 8 - leading.length - trailing.length }, () => '0')
  return `${[...leading, ...zeros, ...trailing].slice(0, 4).join(':')}::/64`
}
