import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Network } from '../../harbor/task.ts'
import { type Resolve, resolvePublicHost } from '../../platform/outbound/public-host.ts'
import { type AllowedHost, coversHost, hostOf, isPublicAddress } from '../../platform/outbound/url-rules.ts'

/** Requested destination: a name, or an address in canonical form. */
export type EgressTarget = { host: string; port: number }

/** Reason for a refusal. */
export type EgressRefusal =
  | 'malformed'
  | 'scheme_not_allowed'
  | 'port_not_allowed'
  | 'host_not_listed'
  | 'host_not_public'
  | 'address_not_public'
  | 'limit'

type EgressDecision =
  | { kind: 'open'; addresses: string[] }
  | { kind: 'refused'; reason: EgressRefusal }
  /** No address was found or none answered. This may be temporary. */
  | { kind: 'unreachable' }

/** Allowed ports. Others belong to protocols such as ssh, mail and databases, which tasks do not need. */
const WEB_PORTS = [80, 443]

type EgressRules = { network: Network; allowedHosts: readonly AllowedHost[]; resolve: Resolve }

/** Decides about a destination. Unlisted names are never resolved, because a DNS query could carry data out. */
export async function decideEgress(
  { network, allowedHosts, resolve }: EgressRules,
  { host, port }: EgressTarget,
): Promise<EgressDecision> {
  const isWebPort = WEB_PORTS.includes(port)
  const allowedEntries = allowedHosts.filter((entry) => (entry.port === null ? isWebPort : entry.port === port))
  if (!isWebPort && allowedEntries.length === 0) return { kind: 'refused', reason: 'port_not_allowed' }
  if (network.mode !== 'public' && !network.hosts.some((listed) => coversHost(listed, host))) {
    return { kind: 'refused', reason: 'host_not_listed' }
  }
  const isAllowed = (name: string): boolean => allowedEntries.some((entry) => coversHost(entry.host, name))
  if (isAllowed(host)) return resolveAnyAddress(host, resolve)
  const found = await resolvePublicHost(
    host,
    resolve,
    (address) => isAllowed(address) || (isWebPort && isPublicAddress(address)),
  )
  if (found.kind === 'refused') return found
  return found.kind === 'unknown' ? { kind: 'unreachable' } : { kind: 'open', addresses: found.addresses }
}

async function resolveAnyAddress(host: string, resolve: Resolve): Promise<EgressDecision> {
  const addresses = isIP(host) === 0 ? await resolve(host).catch(() => []) : [host]
  return addresses.length === 0 ? { kind: 'unreachable' } : { kind: 'open', addresses }
}

/** A host and a port: an IPv6 address in brackets, or a name or address without characters of a URL. */
const AUTHORITY = /^(?:\[[0-9a-f:.]+\]|[^\s:@/?#[\]\\]+):(\d{1,5})$/i

export function parseConnectTarget(authority: string): EgressTarget | undefined {
  const [, port] = AUTHORITY.exec(authority) ?? []
  const url = port === undefined ? null : URL.parse(`http://${authority}/`)
  return url ? { host: toCanonicalHost(url), port: Number(port) } : undefined
}

/** Parses an operator's entry: a name, `*.` and a name, an address or a range, optionally with a port. */
export function parseAllowedHost(text: string): AllowedHost | undefined {
  if (text.includes('/')) return ipaddr.isValidCIDR(text) ? { host: text, port: null } : undefined
  if (isIP(text) !== 0) return { host: ipaddr.parse(text).toString(), port: null }
  const hasPort = /:\d+$/.test(text)
  const target = parseConnectTarget(hasPort ? text : `${text}:80`)
  return target && { host: target.host, port: hasPort ? target.port : null }
}

export const toUrlTarget = (url: URL): EgressTarget => ({ host: toCanonicalHost(url), port: Number(url.port || 80) })

/** Returns the canonical spelling: 0x7f.1 becomes 127.0.0.1, and a trailing dot is removed. */
const toCanonicalHost = (url: URL): string => hostOf(url).replace(/\.$/, '')
