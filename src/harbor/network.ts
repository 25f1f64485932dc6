import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Fields } from './fields.ts'
import type { Network } from './task.ts'

type DeclaredMode = Exclude<Network['mode'], 'unsaid'>
const MODES: readonly DeclaredMode[] = ['public', 'no-network', 'allowlist']

/** Reads the network of a phase. Null means that of its environment. */
export function readPhaseNetwork(fields: Fields): Network | null {
  const mode = fields.oneOf('network_mode', MODES)
  const hosts = readHosts(fields)
  if (mode) return buildNetwork(fields, mode, hosts ?? [])
  if (hosts) refuseHosts(fields)
  return null
}

/** Reads the network of an environment, also from `allow_internet` of schemas before 1.3. */
export function readBaselineNetwork(fields: Fields): Network {
  const mode = fields.oneOf('network_mode', MODES)
  const hosts = readHosts(fields)
  const allowed = fields.flag('allow_internet')
  if (allowed !== undefined) fields.warn('allow_internet', 'deprecated_key', 'Deprecated. Use network_mode instead.')
  return buildNetwork(fields, mode ?? toNetworkMode(allowed, hosts), hosts ?? [])
}

/** Converts `allow_internet`. As in Harbor, `false` is ignored beside a list of hosts. */
function toNetworkMode(allowed: boolean | undefined, hosts: string[] | undefined): Network['mode'] {
  if (allowed === undefined) return 'unsaid'
  if (allowed) return 'public'
  return hosts === undefined ? 'no-network' : 'unsaid'
}

function buildNetwork(fields: Fields, mode: Network['mode'], hosts: string[]): Network {
  if (mode === 'allowlist') return { mode, hosts }
  if (hosts.length > 0) refuseHosts(fields)
  return { mode, hosts: [] }
}

const refuseHosts = (fields: Fields): void =>
  fields.refuse('allowed_hosts', 'conflict', 'allowed_hosts requires network_mode = "allowlist".')

const readHosts = (fields: Fields): string[] | undefined => {
  const hosts = fields.texts('allowed_hosts')
  return hosts?.map((host, index) => {
    const normalised = normaliseHost(host)
    if (normalised === undefined) fields.refuse(`allowed_hosts.${index}`, 'invalid_value', INVALID_HOST)
    return normalised ?? host
  })
}

const INVALID_HOST =
  'Must be a host name, *. and a host name, an IP address or a CIDR range, without scheme, port or path.'
const HOST_LENGTH_MAX = 253
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** Returns the canonical spelling of a host, or undefined if it is invalid. */
export function normaliseHost(text: string): string | undefined {
  const host = trimDots(text.trim().toLowerCase())
  if (host === '' || host.length > HOST_LENGTH_MAX) return undefined
  if (host.includes('/')) return normaliseRange(host)
  return host.includes(':') ? normaliseIpv6(host) : checkHostName(host)
}

function checkHostName(host: string): string | undefined {
  const name = host.startsWith('*.') ? host.slice(2) : host
  if (name !== host && isIPv4(name)) return undefined
  return name.split('.').every((label) => LABEL.test(label)) ? host : undefined
}

function trimDots(host: string): string {
  let end = host.length
  while (host.charAt(end - 1) === '.') end--
  return host.slice(0, end)
}

const normaliseIpv6 = (address: string): string | undefined =>
  isIPv6(address) && !address.includes('%') ? ipaddr.IPv6.parse(address).toRFC5952String() : undefined

/** Normalises a CIDR range. Host bits must be zero: 10.1.0.0/8 is probably a mistake. */
function normaliseRange(text: string): string | undefined {
  const [, given = '', length = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  const address = isIPv4(given) ? given : normaliseIpv6(given)
  const bits = Number(length)
  if (address === undefined || bits > (isIPv4(address) ? 32 : 128)) return undefined
  return firstAddress(address, bits) === address ? `${address}/${bits}` : undefined
}

const firstAddress = (address: string, bits: number): string =>
  isIPv4(address)
    ? ipaddr.IPv4.networkAddressFromCIDR(`${address}/${bits}`).toString()
    : ipaddr.IPv6.networkAddressFromCIDR(`${address}/${bits}`).toRFC5952String()
