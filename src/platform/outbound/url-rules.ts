import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { AddressRange } from '../http/client-address.ts'

/** The party that chose a URL: a client of the API, the operator, or a client whose private networks the operator allows. */
export type Trust = 'client' | 'operator' | NetworkTrust

export type UrlRefusal =
  | 'invalid_url'
  | 'scheme_not_allowed'
  | 'credentials_in_url'
  | 'port_not_allowed'
  | 'host_not_public'
  | 'redirect_downgrade'
  | 'not_canonical'

type UrlRules = { schemes: readonly string[]; publicOnly: boolean }

/** Rules for URLs by the party that chose them. */
export const RULES = {
  client: { schemes: ['https:'], publicOnly: true },
  operator: { schemes: ['https:', 'http:'], publicOnly: false },
  /** Redirects of a URL that the operator configured. The operator trusts the URL, not the targets of its redirects. */
  operatorRedirect: { schemes: ['https:', 'http:'], publicOnly: true },
} satisfies Record<string, UrlRules>

export type RuleName = keyof typeof RULES
/** The rule for one request: a named one, or the networks that a workspace may use. */
export type UrlRule = RuleName | NetworkTrust

/** Reserved names that never resolve to a public server. Other names are judged by their addresses. */
const PRIVATE_NAMES = ['localhost', 'local', 'internal', 'home.arpa']

/** Returns the reason why a rule refuses a URL, as far as can be told without resolving its host. */
export function findRuleRefusal(url: URL, rule: UrlRule): UrlRefusal | undefined {
  if (typeof rule === 'object') return findNetworkRefusal(url, rule)
  const rules: UrlRules = RULES[rule]
  if (!rules.schemes.includes(url.protocol)) return 'scheme_not_allowed'
  if (url.username !== '' || url.password !== '') return 'credentials_in_url'
  if (!rules.publicOnly) return undefined

  if (!isAllowedPort(url)) return 'port_not_allowed'
  if (!mayBePublic(hostOf(url))) return 'host_not_public'
  return undefined
}

/** Checks a URL that may lead into private networks. Host names are checked when they are resolved. */
function findNetworkRefusal(url: URL, trust: NetworkTrust): UrlRefusal | undefined {
  if (!['https:', 'http:'].includes(url.protocol)) return 'scheme_not_allowed'
  if (url.username !== '' || url.password !== '') return 'credentials_in_url'
  if (!isAllowedPort(url) && url.port !== '80') return 'port_not_allowed'
  const host = hostOf(url)
  return isIP(host) === 0 || isAllowedBy(trust, url, host) ? undefined : 'host_not_public'
}

/** Returns true if a workspace may connect to the address: one of its networks, or with https any public one. */
export const isAllowedBy = (trust: NetworkTrust, { protocol }: URL, address: string): boolean =>
  isInNetworks(address, trust) || (protocol === 'https:' && isPublicAddress(address))

/** Letters, digits, hyphens and underscores in labels; no trailing dot, nothing that another parser reads as syntax. */
const DNS_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/

/** Returns true if a host is written in the one form that every URL parser reads the same way. */
export function isCanonicalHost(host: string): boolean {
  const parsed = URL.parse(`https://${isIP(host) === 6 ? `[${host}]` : host}/`)
  return parsed !== null && hostOf(parsed) === host && (isIP(host) !== 0 || DNS_NAME.test(host))
}

/**
 * Returns true if an address equals its own parsed form. Other programs (git, curl) parse an address differently than
 * we do, so an address with two readings is refused. Only the slash after a bare origin may be left out.
 */
export function isCanonical(text: string, parsed: URL): boolean {
  const isSame = parsed.href === text || (parsed.href === `${text}/` && parsed.pathname === '/')
  return isSame && isCanonicalHost(hostOf(parsed))
}

/** Returns the reason why a redirect must not be followed. */
export function findRedirectRefusal(from: URL, to: URL, trust: Trust): UrlRefusal | undefined {
  if (from.protocol === 'https:' && to.protocol === 'http:') return 'redirect_downgrade'
  return findRuleRefusal(to, toRedirectRule(trust))
}

/** Returns the rule for targets of redirects. A server chose them, not a user or an operator. */
export const toRedirectRule = (trust: Trust): RuleName => (trust === 'operator' ? 'operatorRedirect' : 'client')

/** Returns the host of a URL, without the brackets around IPv6 addresses. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '')

/** Ports below 1024 belong to other protocols (ssh, smtp, ldap); model servers and webhooks often sit above. */
function isAllowedPort(url: URL): boolean {
  return url.port === '' || Number(url.port) === 443 || Number(url.port) >= 1024
}

/** Returns false for hosts that cannot be public, as far as can be told without resolving them. */
export function mayBePublic(host: string): boolean {
  if (isIP(host) !== 0) return isPublicAddress(host)
  const name = host.replace(/\.+$/, '')
  return name !== '' && !PRIVATE_NAMES.some((reserved) => name === reserved || name.endsWith(`.${reserved}`))
}

/**
 * Trust of a URL that a workspace chose and whose private networks the operator allows. Redirects are judged without the
 * networks.
 */
export type NetworkTrust = { networks: readonly AddressRange[] }

/** Address kinds that an operator can allow. Link-local, multicast, unspecified and IPv4-in-IPv6 forms are never allowed. */
const ALLOWED_KINDS = ['loopback', 'private', 'uniqueLocal', 'carrierGradeNat', 'unicast']

/** Metadata services of clouds, which hand out credentials of the machine. They are refused whatever is allowed. */
const METADATA_SERVICES = ['168.63.129.16', '100.100.100.200', '192.0.0.192', 'fd00:ec2::254', 'fd20:ce::254']

/** Returns true if the address is in a network that the operator allows for models of the workspace. */
export function isInNetworks(address: string, { networks }: NetworkTrust): boolean {
  const version = isIP(address)
  if (version === 0) return false
  const parsed = ipaddr.parse(address)
  if (!ALLOWED_KINDS.includes(parsed.range()) || METADATA_SERVICES.includes(parsed.toString())) return false
  const allowed = new BlockList()
  for (const range of networks) allowed.addSubnet(range.address, range.prefixLength, range.family)
  return allowed.check(address, version === 6 ? 'ipv6' : 'ipv4')
}

const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3')

/**
 * Returns true if an untrusted party may make us connect to the address. IPv6 forms that contain an IPv4 address (mapped,
 * NAT64, 6to4, Teredo) are refused rather than unwrapped: public services do not need them, and each is one more way to
 * spell 127.0.0.1.
 */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast') return false

  // ipaddr.js reports unknown ranges as unicast, `::127.0.0.1` included.
  if (parsed instanceof ipaddr.IPv6) return parsed.match(GLOBAL_IPV6)
  // Azure's metadata service has an address in public space.
  return !METADATA_SERVICES.includes(parsed.toString())
}

/** A host that the operator allows for builds, public or not. Null as port allows 80 and 443. */
export type AllowedHost = { host: string; port: number | null }

/** Tests whether a destination is listed. Names match names and addresses match addresses; `*.` matches subdomains only. */
export function coversHost(entry: string, host: string): boolean {
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
