import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Fields } from './fields.ts'
import type { SchemaDefaults } from './schema-versions.ts'
import { readEnv, readHealthcheck, readTimeoutSec } from './settings.ts'
import type { Environment, EnvironmentResources, EnvVar, McpServer, Network, Template } from './task.ts'
import { formatTemplate, parseBracedTemplate, toPlainText, variablesOf } from './template.ts'

/** Content of `[environment]`. The omitted fields depend on the files of the task. */
export type EnvironmentConfig = Omit<Environment, 'os' | 'folder' | 'dockerfile' | 'compose'> & {
  os: Environment['os'] | null
}

export const readEnvironment = (fields: Fields, { resources }: SchemaDefaults): EnvironmentConfig => ({
  os: readOs(fields),
  image: readImage(fields),
  buildTimeoutSec: readTimeoutSec(fields, 'build_timeout_sec') ?? 600,
  resources: readResources(fields, resources),
  network: readBaselineNetwork(fields),
  env: readEnv(fields, 'env'),
  mcpServers: fields.tables('mcp_servers', readMcpServer) ?? [],
  skillsDir: fields.text('skills_dir') ?? null,
  healthcheck: fields.table('healthcheck', readHealthcheck) ?? null,
  workdir: fields.text('workdir') || null,
})

const readResources = (fields: Fields, defaults: EnvironmentResources): EnvironmentResources => ({
  cpus: fields.number('cpus', { above: 0, max: 1e6 }) ?? defaults.cpus,
  memoryMb: readMegabytes(fields, 'memory_mb', 'memory') ?? defaults.memoryMb,
  storageMb: readMegabytes(fields, 'storage_mb', 'storage') ?? defaults.storageMb,
  gpus: fields.number('gpus', { min: 0, max: 1e6, integer: true }) ?? defaults.gpus,
  gpuTypes: readGpuTypes(fields),
  tpu: fields.table('tpu', readTpu) ?? null,
})

/** Reads the accepted GPU types. Null means any type. */
function readGpuTypes(fields: Fields): string[] | null {
  const types = fields.texts('gpu_types') ?? []
  return types.length > 0 ? types : null
}

function readOs(fields: Fields): Environment['os'] | null {
  const os = fields.text('os')?.toLowerCase()
  if (os === undefined || os === 'linux' || os === 'windows') return os ?? null
  fields.refuse('os', 'invalid_value', 'Must be one of linux, windows.')
  return null
}

/** Image references are passed on command lines, so they must not look like options. */
const IMAGE = /^[A-Za-z0-9][\w.\-/:@+]{0,499}$/

function readImage(fields: Fields): string | null {
  const image = fields.text('docker_image') || null
  if (image !== null && !IMAGE.test(image)) fields.refuse('docker_image', 'invalid_value', 'Invalid image reference.')
  return image
}

const MEGABYTES_PER_UNIT: Record<string, number> = { G: 1024, M: 1, K: 1 / 1024 }
const SIZE = /^(\d{1,12}(?:\.\d{1,6})?)([GMK])$/

/** Reads a size in megabytes, also from the deprecated key with a unit, such as `memory = "2G"`. */
function readMegabytes(fields: Fields, key: string, oldKey: string): number | undefined {
  const megabytes = fields.number(key, { above: 0, max: 1e12, integer: true })
  const deprecatedValue = fields.value(oldKey)
  if (deprecatedValue === undefined) return megabytes
  fields.warn(oldKey, 'deprecated_key', `Deprecated. Use ${key} instead.`)
  if (typeof deprecatedValue !== 'string') return megabytes // Harbor ignores it
  const converted = parseMegabytes(deprecatedValue)
  if (converted === undefined) fields.refuse(oldKey, 'invalid_value', 'Must be a size such as 512M or 2G.')
  else if (fields.has(key) && megabytes !== converted) {
    fields.refuse(oldKey, 'conflict', `The value is ${converted} MB, which contradicts ${key}. Remove ${oldKey}.`)
  }
  return converted ?? megabytes
}

/** Returns whole megabytes, or undefined for an invalid size or less than one megabyte. */
function parseMegabytes(text: string): number | undefined {
  const [, amount = '', unit = ''] = SIZE.exec(text.trim().toUpperCase()) ?? []
  const megabytes = Math.trunc(Number(amount) * (MEGABYTES_PER_UNIT[unit] ?? 0))
  return megabytes === 0 ? undefined : megabytes
}

function readTpu(fields: Fields): EnvironmentResources['tpu'] {
  const type = fields.requiredText('type')
  const topology = fields.requiredText('topology').trim()
  if (type === '') fields.refuse('type', 'invalid_value', 'Must be the type of a TPU.')
  if (!/^[1-9]\d{0,5}(x[1-9]\d{0,5}){1,5}$/.test(topology)) {
    fields.refuse('topology', 'invalid_value', 'Must be dimensions such as 2x4 or 2x2x1.')
  }
  return { type, topology }
}

const TRANSPORTS = ['sse', 'streamable-http', 'http', 'stdio'] as const

function readMcpServer(fields: Fields): McpServer {
  const name = fields.requiredText('name')
  const transport = fields.oneOf('transport', TRANSPORTS) ?? 'sse'
  if (transport !== 'stdio') {
    warnIgnored(fields, ['command', 'args'], transport)
    const url = fields.requiredText('url')
    return { name, transport: transport === 'http' ? 'streamable-http' : transport, url, headers: readHeaders(fields) }
  }
  warnIgnored(fields, ['url'], transport)
  if (fields.has('headers')) fields.refuse('headers', 'conflict', 'Headers are only allowed for HTTP transports.')
  return { name, transport, command: fields.requiredText('command'), args: fields.texts('args') ?? [] }
}

function warnIgnored(fields: Fields, keys: string[], transport: string): void {
  for (const key of keys.filter(fields.has))
    fields.warn(key, 'ignored_key', `This key has no effect with transport ${transport}.`)
}

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
const CREDENTIAL = /KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH|^(set-)?cookie$/i

/** Reads headers, which Harbor supports since 0.25. Tasks are public, so a credential must be given as a variable. */
const readHeaders = (fields: Fields): EnvVar[] =>
  readEnv(fields, 'headers').map(({ name, value }) => {
    const text = toPlainText(value)
    const template = text === undefined ? value : parseBracedTemplate(text)
    const problem = template === undefined ? `Write variables as \${NAME}.` : checkHeader(name, template)
    if (problem) fields.refuse(`headers.${name}`, 'invalid_value', problem)
    return { name, value: template ?? [] }
  })

function checkHeader(name: string, value: Template): string | undefined {
  if (!HEADER.test(name)) return 'Invalid header name.'
  if (/[\r\n]/.test(formatTemplate(value))) return 'A header value must be a single line.'
  const isSecret = CREDENTIAL.test(name)
  const hasSecretFallback = variablesOf(value).some(
    ({ variable, fallback }) => fallback && (isSecret || CREDENTIAL.test(variable)),
  )
  if (hasSecretFallback || (isSecret && !isVariableOnly(value))) {
    return `A credential must be a variable without a fallback, for example "Bearer \${TOKEN}".`
  }
  return undefined
}

/** Returns true for variables only, optionally after a scheme name. No string contains NUL, so it can stand for a variable. */
const isVariableOnly = (value: Template): boolean =>
  /^\s*$|^\s*(?:[A-Za-z]+\s+)?\0(?:[\s:-]*\0)*\s*$/.test(
    value.map((part) => (typeof part === 'string' ? part : '\0')).join(''),
  )

type DeclaredMode = Exclude<Network['mode'], 'undeclared'>
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
function readBaselineNetwork(fields: Fields): Network {
  const mode = fields.oneOf('network_mode', MODES)
  const hosts = readHosts(fields)
  const allowed = fields.flag('allow_internet')
  if (allowed !== undefined) fields.warn('allow_internet', 'deprecated_key', 'Deprecated. Use network_mode instead.')
  return buildNetwork(fields, mode ?? toNetworkMode(allowed, hosts), hosts ?? [])
}

/** Converts `allow_internet`. As in Harbor, `false` is ignored beside a list of hosts. */
function toNetworkMode(allowed: boolean | undefined, hosts: string[] | undefined): Network['mode'] {
  if (allowed === undefined) return 'undeclared'
  if (allowed) return 'public'
  return hosts === undefined ? 'no-network' : 'undeclared'
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
