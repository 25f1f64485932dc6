import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Fields } from './fields.ts'
import type { Network } from './task.ts'

type Said = Exclude<Network['mode'], 'unsaid'>
const MODES: readonly Said[] = ['public', 'no-network', 'allowlist']

/** What a phase says about its own network. Null: it has the one of its environment. */
export function readPhaseNetwork(fields: Fields): Network | null {
  const mode = fields.oneOf('network_mode', MODES)
  const hosts = readHosts(fields)
  if (mode) return networkOf(fields, mode, hosts ?? [])
  if (hosts) refuseHosts(fields)
  return null
}

/** `allow_internet` is how it was said before schema 1.3. */
export function readBaselineNetwork(fields: Fields): Network {
  const mode = fields.oneOf('network_mode', MODES)
  const hosts = readHosts(fields)
  const allowed = fields.flag('allow_internet')
  if (allowed !== undefined) fields.warn('allow_internet', 'deprecated_key', 'Write network_mode instead.')
  return networkOf(fields, mode ?? modeOfOld(allowed, hosts), hosts ?? [])
}

/** Harbor drops `allow_internet = false` beside a list of hosts. */
function modeOfOld(allowed: boolean | undefined, hosts: string[] | undefined): Network['mode'] {
  if (allowed === undefined) return 'unsaid'
  if (allowed) return 'public'
  return hosts === undefined ? 'no-network' : 'unsaid'
}

function networkOf(fields: Fields, mode: Network['mode'], hosts: string[]): Network {
  if (mode === 'allowlist') return { mode, hosts }
  if (hosts.length > 0) refuseHosts(fields)
  return { mode, hosts: [] }
}

const refuseHosts = (fields: Fields): void =>
  fields.refuse('allowed_hosts', 'conflict', 'Hosts are only listed with network_mode = "allowlist".')

const readHosts = (fields: Fields): string[] | undefined => {
  const hosts = fields.texts('allowed_hosts')
  return hosts?.map((host, place) => {
    const found = allowedHost(host)
    if (found === undefined) fields.refuse(`allowed_hosts.${place}`, 'invalid_value', HOST_EXPECTED)
    return found ?? host
  })
}

const HOST_EXPECTED =
  'A host name, *. and a host name, an IP address or a CIDR range is expected here; no address, port or path.'
const HOST_LENGTH_MAX = 253
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** The host in its one spelling, or undefined when it is none. */
export function allowedHost(text: string): string | undefined {
  const host = withoutDots(text.trim().toLowerCase())
  if (host === '' || host.length > HOST_LENGTH_MAX) return undefined
  if (host.includes('/')) return range(host)
  return host.includes(':') ? ipv6(host) : hostName(host)
}

function hostName(host: string): string | undefined {
  const name = host.startsWith('*.') ? host.slice(2) : host
  if (name !== host && isIPv4(name)) return undefined
  return name.split('.').every((label) => LABEL.test(label)) ? host : undefined
}

function withoutDots(host: string): string {
  let end = host.length
  while (host.charAt(end - 1) === '.') end--
  return host.slice(0, end)
}

const ipv6 = (address: string): string | undefined =>
  isIPv6(address) && !address.includes('%') ? ipaddr.IPv6.parse(address).toRFC5952String() : undefined

/** A range must start at its first address: 10.1.0.0/8 is more likely a mistake than meant. */
function range(text: string): string | undefined {
  const [, given = '', length = ''] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  const address = isIPv4(given) ? given : ipv6(given)
  const bits = Number(length)
  if (address === undefined || bits > (isIPv4(address) ? 32 : 128)) return undefined
  return firstAddress(address, bits) === address ? `${address}/${bits}` : undefined
}

const firstAddress = (address: string, bits: number): string =>
  isIPv4(address)
    ? ipaddr.IPv4.networkAddressFromCIDR(`${address}/${bits}`).toString()
    : ipaddr.IPv6.networkAddressFromCIDR(`${address}/${bits}`).toRFC5952String()
