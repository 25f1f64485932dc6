import { availableParallelism, totalmem } from 'node:os'
import { isAbsolute, resolve } from 'node:path'
import { z } from 'zod'
import type { ModelNetworks } from './catalog/custom-models.ts'
import { findSandboxChoice, sandboxChoices } from './catalog/sandboxes.ts'
import { isRegistryName, type RegistrySettings } from './harbor/registries/open-registries.ts'
import { parseOrUndefined } from './platform/errors.ts'
import { type AddressRange, parseAddressRange } from './platform/http/client-address.ts'
import type { AllowedHost } from './platform/outbound/url-rules.ts'
import type { TracingSettings } from './platform/tracing.ts'
import { parseAllowedHost } from './sandboxes/egress/rules.ts'
import { isKey } from './workspaces/key.ts'

const SANDBOX_IDS = sandboxChoices.map(({ id }) => id).join(', ')

/** Starts per second and core that the lightest sandboxes reach. */
const STARTS_PER_CORE = 10

/**
 * All settings of the operator, as environment variables. `docs/operations.md` explains each; a test compares the two
 * lists.
 */
const Settings = z.object({
  ASSAY_DATA: z.string().min(1).refine(isOnDisk, 'must be a folder on a disk').default('./.assay'),
  ASSAY_PORT: port().default(4000),
  ASSAY_HOST: z.string().min(1).default('127.0.0.1'),
  ASSAY_WORK_PORT: port().optional(),
  ASSAY_BASE_URL: httpUrl().optional(),
  ASSAY_PUBLIC_URL: httpUrl().optional(),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must be a postgres:// URL')
    .optional(),
  ASSAY_BLOBS: z
    .string()
    .regex(/^(file:.|s3:\/\/.)/, 'must be file:DIR or s3://BUCKET/PREFIX')
    .refine((url) => isOnDisk(url.replace(/^file:/, '')), 'must name a folder on a disk')
    .optional(),
  ASSAY_REGISTRIES: z
    .string()
    .transform((text) => text.split(',').map((name) => name.trim()))
    .refine(
      (names) => names.every(isRegistryName) && new Set(names).size === names.length,
      'must list each of these once at most, with commas: harbor, samples, dir:PATH, the URL or path of a registry.json',
    )
    .default(['samples', 'harbor']),
  ASSAY_HARBOR_URL: httpUrl().default('https://ofhuhcpkvzjlejydnvyd.supabase.co'),
  // A publishable key: Harbor's own command line contains it.
  ASSAY_HARBOR_PUBLIC_KEY: z.string().min(1).default('sb_publishable_Z-vuQbpvpG-PStjbh4yE0Q_e-d3MTIH'),
  ASSAY_GIT_ALLOW: z
    .string()
    .transform((text) => text.split(',').map((path) => path.trim()))
    .refine((paths) => paths.every((path) => isAbsolute(path)), 'must list absolute paths, with commas')
    .default([]),
  ASSAY_WEBHOOKS_PRIVATE: z.enum(['0', '1'], 'must be 0 or 1').default('0'),
  ASSAY_GATEWAY_URL: httpUrl().optional(),
  ASSAY_GATEWAY_PORT: port().optional(),
  ASSAY_GATEWAY_HOST: z.string().min(1).default('127.0.0.1'),
  ASSAY_PUBLIC_OWNERS: z
    .string()
    .regex(/^[\w.-]+=[\w.-]+(,[\w.-]+=[\w.-]+)*$/, 'must list owner=org, with commas')
    .transform((text) => new Map(text.split(',').map((pair) => parseOwnerAndLogin(pair.toLowerCase()))))
    .optional(),
  ASSAY_MODEL_NETWORKS: z
    .string()
    .transform(parseModelNetworks)
    .refine(
      (networks) => networks !== undefined,
      'must be off, or list workspace=range such as local=10.0.0.0/8, with commas',
    )
    .optional(),
  ASSAY_BOOTSTRAP_KEY: z.string().refine(isKey, 'must be a key as `assay keys generate` prints it').optional(),
  ASSAY_OPERATOR_KEY: z
    .string()
    .refine(isStrongKey, 'is too weak: 24 characters or more, as `assay keys generate` prints them')
    .optional(),
  ASSAY_SECRET_KEY: z.string().min(1).optional(),
  ASSAY_CREDENTIAL_STORAGE: z.enum(['on', 'off'], 'must be on or off').default('on'),
  ASSAY_RATE_LIMIT: z
    .string()
    .regex(/^[1-9]\d{0,8}$/, 'must be requests per minute and key, or absent for no limit')
    .transform(Number)
    .optional(),
  ASSAY_TRUSTED_PROXIES: z
    .string()
    .transform((text) => text.split(',').map((range) => parseAddressRange(range.trim())))
    .refine((ranges) => !ranges.includes(undefined), 'must list IP addresses or ranges such as 10.0.0.0/8, with commas')
    .transform((ranges) => ranges.filter((range) => range !== undefined))
    .default([]),
  ASSAY_WORKER_SLOTS: count(1, 1000).default(8),
  ASSAY_WORKER_MEMORY_MB: count(1, 999_999_999).default(() => Math.floor(machineMemoryMb() * 0.75)),
  ASSAY_WORKER_STARTS: count(1, 1000).default(() => Math.min(1000, availableParallelism() * STARTS_PER_CORE)),
  ASSAY_SANDBOX_TRIALS: count(1, 100_000).optional(),
  ASSAY_SANDBOX_PATIENCE: count(0, 3600).default(60),
  ASSAY_MODEL_TRIALS: count(1, 100_000).optional(),
  ASSAY_ARTIFACT_DAYS: count(1, 36_500).default(90),
  ASSAY_ARTIFACT_GB: count(1, 1_000_000).default(50),
  ASSAY_CACHE_DAYS: count(1, 36_500).default(30),
  ASSAY_DATABASE_CONNECTIONS: count(2, 500).default(20),
  ASSAY_SANDBOXES: z
    .string()
    .transform((text) => (text === 'auto' ? undefined : text.split(',').map((name) => name.trim())))
    .refine((names) => names?.every(findSandboxChoice) ?? true, `must be auto, or some of ${SANDBOX_IDS} with commas`)
    .optional(),
  DOCKER_HOST: z.string().min(1).optional(),
  DOCKER_TLS_VERIFY: z.string().optional(),
  DOCKER_CERT_PATH: z.string().min(1).optional(),
  ASSAY_KUBERNETES: z.string().min(1).optional(),
  ASSAY_ALLOW_HOST_BASE: z.enum(['0', '1'], 'must be 0 or 1').default('0'),
  ASSAY_BUILD_HOSTS: z
    .string()
    .transform((text) => text.split(',').map((host) => parseAllowedHost(host.trim())))
    .refine(
      (hosts) => !hosts.includes(undefined),
      'must list names, addresses or ranges, with commas, each with :PORT where it is not 80 or 443',
    )
    .transform((hosts) => hosts.filter((host) => host !== undefined))
    .default([]),
  ASSAY_IMAGE_DISK_GB: count(1, 100_000).optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl().optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z
    .string()
    .regex(/^[^=,\s]+=[^,]*(,[^=,\s]+=[^,]*)*$/, 'must list name=value, with commas')
    .transform((text) => Object.fromEntries(text.split(',').map(parseHeader)))
    .optional(),
  OTEL_SERVICE_NAME: z.string().min(1).default('assay'),
  ASSAY_LOG: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], 'must be debug, info, warn, error or silent')
    .default('info'),
})

export type Config = {
  dataFolder: string
  host: string
  port: number
  /** Port on which a process that only runs jobs serves its health and metrics. Undefined: none. */
  workPort: number | undefined
  baseUrl: string | undefined
  /** Public base URL of the result pages. */
  publicUrl: string | undefined
  databaseUrl: string | undefined
  blobs: string
  /** Sources of datasets. */
  registries: RegistrySettings
  /** Local folders whose git repositories may be connected. */
  gitAllow: string[]
  /** Allows webhooks to private addresses and over plain http. */
  webhooksPrivate: boolean
  /**
   * `url` is the gateway's address for workers; default: the gateway of their process. If `port` is undefined, `serve`
   * uses any free port and `gateway` its default port.
   */
  gateway: { url: string | undefined; host: string; port: number | undefined }
  /** Logins of the workspaces that may publish under an owner of repositories, by owner. */
  publicOwners: ReadonlyMap<string, string> | undefined
  /** Private networks in which custom models of a workspace may run, by its login. */
  modelNetworks: ModelNetworks
  bootstrapKey: string | undefined
  operatorKey: string | undefined
  secretKey: string | undefined
  credentialStorage: boolean
  /** Requests per minute and key. */
  rateLimit: number | undefined
  /** Proxies whose `X-Forwarded-For` header names the client. */
  trustedProxies: readonly AddressRange[]
  /** Sandboxes that this process may use. Undefined: all that work here. */
  sandboxes: string[] | undefined
  /** Allows local sandboxes to use this machine's system files when there is no base image. */
  allowHostBase: boolean
  /** Address of the Docker engine. Default: the usual socket. */
  dockerHost: string | undefined
  /** Folder with the certificates for that engine. Undefined without DOCKER_TLS_VERIFY. */
  dockerCertificates: string | undefined
  /** Path of the settings of the cluster for sandboxes. */
  kubernetesSettings: string | undefined
  /** Hosts that builds may reach besides public ones. */
  buildHosts: readonly AllowedHost[]
  /** Maximum size of built images. Not set: no limit. */
  imageDiskBytes: number | undefined
  workerSlots: number
  /** Maximum memory of all jobs on this machine, over all of its workers. */
  workerMemoryMb: number
  workerStartsPerSecond: number
  /** Time after which comparisons are paused if their sandbox engine is unreachable. */
  sandboxPatienceMs: number
  /** Trials that run at once with one credential, over all workers. Undefined: no limit. */
  credentialTrials: { sandbox: number | undefined; model: number | undefined }
  /** Days after which artifacts of trials are deleted. */
  artifactDays: number
  /** Maximum size of the trial artifacts of a workspace. */
  artifactBytesMax: number
  /** Days after which unused mirrors, scans and builds of images are deleted. */
  cacheDays: number
  databaseConnections: number
  /** Collector of traces. Undefined: none. */
  tracing: TracingSettings | undefined
  logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** Base URLs of model providers, by provider. */
  upstreams: Record<string, string>
  /** Environment with the server's own credentials. */
  environment: ConfigEnvironment
}

export type ConfigEnvironment = Record<string, string | undefined>

/** Thrown for an invalid setting. The message names it and never quotes a value that could be a secret. */
export class ConfigError extends Error {}

/** Reads and checks all settings. An empty variable counts as not set. Throws `ConfigError`. */
export function readConfig(environment: ConfigEnvironment): Config {
  const given = withoutEmpty(environment)
  const settings = parseSettings(Settings, given)
  const dataFolder = resolve(settings.ASSAY_DATA)
  return {
    dataFolder,
    host: settings.ASSAY_HOST,
    port: settings.ASSAY_PORT,
    workPort: settings.ASSAY_WORK_PORT,
    baseUrl: settings.ASSAY_BASE_URL,
    publicUrl: settings.ASSAY_PUBLIC_URL,
    databaseUrl: settings.DATABASE_URL,
    blobs: settings.ASSAY_BLOBS ?? `file:${dataFolder}/blobs`,
    registries: {
      names: settings.ASSAY_REGISTRIES,
      harborUrl: settings.ASSAY_HARBOR_URL,
      harborPublicKey: settings.ASSAY_HARBOR_PUBLIC_KEY,
    },
    gitAllow: settings.ASSAY_GIT_ALLOW,
    webhooksPrivate: settings.ASSAY_WEBHOOKS_PRIVATE === '1',
    gateway: {
      url: settings.ASSAY_GATEWAY_URL,
      host: settings.ASSAY_GATEWAY_HOST,
      port: settings.ASSAY_GATEWAY_PORT,
    },
    publicOwners: settings.ASSAY_PUBLIC_OWNERS,
    modelNetworks: settings.ASSAY_MODEL_NETWORKS ?? defaultModelNetworks(settings.ASSAY_HOST),
    bootstrapKey: settings.ASSAY_BOOTSTRAP_KEY,
    operatorKey: settings.ASSAY_OPERATOR_KEY,
    secretKey: settings.ASSAY_SECRET_KEY,
    credentialStorage: settings.ASSAY_CREDENTIAL_STORAGE === 'on',
    rateLimit: settings.ASSAY_RATE_LIMIT,
    trustedProxies: settings.ASSAY_TRUSTED_PROXIES,
    sandboxes: settings.ASSAY_SANDBOXES,
    allowHostBase: settings.ASSAY_ALLOW_HOST_BASE === '1',
    dockerHost: settings.DOCKER_HOST,
    dockerCertificates: findDockerCertificates(settings, environment),
    kubernetesSettings: settings.ASSAY_KUBERNETES,
    buildHosts: settings.ASSAY_BUILD_HOSTS,
    imageDiskBytes: settings.ASSAY_IMAGE_DISK_GB === undefined ? undefined : settings.ASSAY_IMAGE_DISK_GB * 1e9,
    workerSlots: settings.ASSAY_WORKER_SLOTS,
    workerMemoryMb: settings.ASSAY_WORKER_MEMORY_MB,
    workerStartsPerSecond: settings.ASSAY_WORKER_STARTS,
    credentialTrials: { sandbox: settings.ASSAY_SANDBOX_TRIALS, model: settings.ASSAY_MODEL_TRIALS },
    sandboxPatienceMs: settings.ASSAY_SANDBOX_PATIENCE * 1000,
    artifactDays: settings.ASSAY_ARTIFACT_DAYS,
    artifactBytesMax: settings.ASSAY_ARTIFACT_GB * 1_000_000_000,
    cacheDays: settings.ASSAY_CACHE_DAYS,
    databaseConnections: settings.ASSAY_DATABASE_CONNECTIONS,
    tracing: toTracing(settings),
    logLevel: settings.ASSAY_LOG,
    upstreams: readUpstreams(given),
    environment: given,
  }
}

/** Finds the folder of Docker's certificates in the same way as the `docker` command. */
const findDockerCertificates = (
  settings: z.output<typeof Settings>,
  { HOME }: ConfigEnvironment,
): string | undefined => (settings.DOCKER_TLS_VERIFY ? (settings.DOCKER_CERT_PATH ?? `${HOME}/.docker`) : undefined)

/** Reads only the hosts that builds may reach, for commands that use no other setting. */
export const readBuildHosts = (environment: ConfigEnvironment): Config['buildHosts'] =>
  parseSettings(Settings.pick({ ASSAY_BUILD_HOSTS: true }), withoutEmpty(environment)).ASSAY_BUILD_HOSTS

const withoutEmpty = (environment: ConfigEnvironment): ConfigEnvironment =>
  Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''))

function parseSettings<T>(settings: z.ZodType<T>, given: ConfigEnvironment): T {
  const result = settings.safeParse(given)
  if (!result.success)
    throw new ConfigError(result.error.issues.map(({ path, message }) => `${path.join('.')} ${message}.`).join('\n'))
  return result.data
}

export const settingNames: string[] = Object.keys(Settings.shape)

/** Returns the default of a setting as a text, or undefined if it has none or depends on other settings. */
export function findDefaultSetting(name: string): string | undefined {
  const shape: Record<string, z.ZodType> = Settings.shape
  const value = shape[name]?.safeParse(undefined).data
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.join(',')
  return value === undefined ? undefined : String(value)
}

/** Returns the error message for the value of a setting, or undefined if the value is valid. */
export function findSettingProblem(name: string, value: string): string | undefined {
  const shape: Record<string, z.ZodType> = Settings.shape
  const issue = shape[name]?.safeParse(value).error?.issues[0]
  return issue ? `${name} ${issue.message}.` : undefined
}

function toTracing(settings: z.infer<typeof Settings>): TracingSettings | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers = {} } = settings
  return endpoint === undefined ? undefined : { endpoint, headers, serviceName: settings.OTEL_SERVICE_NAME }
}

/** Parses `name=value`. The value is percent-encoded; one with an invalid escape is used unchanged. */
function parseHeader(pair: string): [string, string] {
  const at = pair.indexOf('=')
  const value = pair.slice(at + 1).trim()
  return [pair.slice(0, at).trim(), parseOrUndefined(() => decodeURIComponent(value)) ?? value]
}

const UPSTREAM_PREFIX = 'ASSAY_GATEWAY_UPSTREAM_'

/** Reads `ASSAY_GATEWAY_UPSTREAM_<PROVIDER>`: base URLs by provider, in lower case and with hyphens. */
function readUpstreams(given: ConfigEnvironment): Record<string, string> {
  const named = Object.entries(given).filter(([name]) => name.startsWith(UPSTREAM_PREFIX))
  return Object.fromEntries(
    named.map(([name, value]) => {
      const url = httpUrl().safeParse(value)
      if (!url.success) throw new ConfigError(`${name} must be an http or https URL.`)
      return [name.slice(UPSTREAM_PREFIX.length).toLowerCase().replaceAll('_', '-'), url.data]
    }),
  )
}

/** Parses `workspace=range,…`. Returns undefined if any part is invalid. */
function parseModelNetworks(text: string): ModelNetworks | undefined {
  if (text === 'off') return new Map()
  const networks = new Map<string, AddressRange[]>()
  for (const pair of text.split(',')) {
    const [login = '', range = '', ...rest] = pair.trim().toLowerCase().split('=')
    const parsed = parseAddressRange(range)
    if (!/^[a-z0-9][\w.-]*$/.test(login) || !parsed || rest.length > 0) return undefined
    networks.set(login, [...(networks.get(login) ?? []), parsed])
  }
  return networks
}

/**
 * Allows the workspace `local` to use model servers on this machine if the API listens on a loopback address: it then
 * only serves programs of the same machine, and `local` is the workspace of the machine's owner.
 */
function defaultModelNetworks(host: string): ModelNetworks {
  if (!['127.0.0.1', '::1', 'localhost'].includes(host)) return new Map()
  const loopback = ['127.0.0.0/8', '::1'].flatMap((range) => parseAddressRange(range) ?? [])
  return new Map([['local', loopback]])
}

function parseOwnerAndLogin(pair: string): [string, string] {
  const [owner = '', login = ''] = pair.split('=')
  return [owner, login]
}

function port() {
  return count(0, 65_535)
}

function count(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .transform(Number)
    .refine((value) => value >= min && value <= max, message)
}

function httpUrl() {
  return z
    .url({ protocol: /^https?$/, message: 'must be an http or https URL' })
    .transform((url) => url.replace(/\/+$/, ''))
}

/** Returns false for paths in /proc and /sys. Nothing can be created there, and Node's recursive mkdir never returns. */
function isOnDisk(path: string): boolean {
  return !/^\/(proc|sys)(\/|$)/.test(resolve(path))
}

const DISTINCT_CHARACTERS_MIN = 8

/** Returns true for 24 or more visible ASCII characters that are not repetitions of a few. */
function isStrongKey(key: string): boolean {
  return /^[\x21-\x7e]{24,}$/.test(key) && new Set(key).size >= DISTINCT_CHARACTERS_MIN
}

/** Returns the memory of the machine, or of the container that this process runs in. */
function machineMemoryMb(): number {
  // Node returns 0, or more memory than the machine has, if no container limits it.
  const containerBytes = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.floor(Math.min(totalmem(), containerBytes) / 2 ** 20)
}
