import { readMounts, resolveInside } from './compose-mounts.ts'
import {
  readCommand,
  readEnvVars,
  readLiteral,
  readLiterals,
  readMegabytes,
  readSeconds,
  readTemplate,
  toLiteral,
} from './compose-values.ts'
import { type Fields, isTable } from './fields.ts'
import type { ComposeBuild, ComposeService, ServiceHealthcheck } from './task.ts'
import { parseComposeTemplate, toPlainText, variablesOf } from './template.ts'

/** Keys that have no effect in a sandbox. */
const IGNORED_KEYS = [
  'restart',
  'labels',
  'logging',
  'ports',
  'expose',
  'pull_policy',
  'stdin_open',
  'tty',
  'stop_grace_period',
]

export function readService(fields: Fields, name: string, folder: string): ComposeService {
  for (const key of IGNORED_KEYS.filter(fields.has))
    fields.warn(key, 'ignored_key', 'This key has no effect in a sandbox.')
  return {
    name,
    image: readTemplate(fields, 'image') ?? null,
    build: readBuild(fields, folder),
    command: readCommand(fields, 'command'),
    entrypoint: readCommand(fields, 'entrypoint'),
    env: readEnvVars(fields, 'environment'),
    ...readNames(fields),
    aliases: readAliases(fields),
    dependsOn: readDependencies(fields),
    healthcheck: fields.table('healthcheck', readHealthcheck) ?? null,
    mounts: readMounts(fields, folder),
    network: readNetwork(fields),
    readOnly: fields.flag('read_only') ?? false,
    init: fields.flag('init') ?? false,
    resources: readResources(fields),
  }
}

const readNames = (
  fields: Fields,
): Pick<ComposeService, 'user' | 'workdir' | 'hostname' | 'stopSignal' | 'platform'> => ({
  user: readLiteral(fields, 'user') ?? null,
  workdir: readLiteral(fields, 'working_dir') ?? null,
  hostname: readLiteral(fields, 'hostname') ?? null,
  stopSignal: readLiteral(fields, 'stop_signal') ?? null,
  platform: readLiteral(fields, 'platform') ?? null,
})

function readBuild(fields: Fields, folder: string): ComposeBuild | null {
  const value = fields.value('build')
  if (value === undefined) return null
  if (!isTable(value)) {
    return { context: readContext(fields, 'build', folder), dockerfile: 'Dockerfile', target: null, args: [] }
  }
  const read = (inner: Fields): ComposeBuild => {
    const context = readContext(inner, 'context', folder)
    const dockerfile = readLiteral(inner, 'dockerfile') ?? 'Dockerfile'
    resolveInside(
      { fields: inner, folder },
      `${context.slice(folder.length + 1)}/${dockerfile}`.replace(/^\//, ''),
      inner.path,
    )
    return { context, dockerfile, target: readLiteral(inner, 'target') ?? null, args: readEnvVars(inner, 'args') }
  }
  return fields.table('build', read) ?? null
}

/** Reads a build context. `$CONTEXT_DIR`, which Harbor sets, is the folder itself. */
function readContext(fields: Fields, key: string, folder: string): string {
  const value = fields.value(key)
  const template = typeof value === 'string' ? parseComposeTemplate(value) : undefined
  const [first] = template ?? []
  if (template?.length === 1 && typeof first === 'object' && first.variable === 'CONTEXT_DIR') return folder
  return resolveInside({ fields, folder }, readLiteral(fields, key) ?? '.', `${fields.path}.${key}`)
}

/** Reads `container_name`, under which other services can reach the container too. */
function readAliases(fields: Fields): string[] {
  const value = fields.value('container_name')
  const template = typeof value === 'string' ? parseComposeTemplate(value) : undefined
  const name = template && toPlainText(template)
  if (value !== undefined && name === undefined) {
    fields.warn('container_name', 'ignored_key', 'Container names with variables are ignored.')
  }
  return name ? [name] : []
}

const CONDITIONS: Record<string, ComposeService['dependsOn'][number]['condition']> = {
  service_started: 'started',
  service_healthy: 'healthy',
  service_completed_successfully: 'completed',
}

function readDependencies(fields: Fields): ComposeService['dependsOn'] {
  const value = fields.value('depends_on')
  if (value === undefined) return []
  if (!isTable(value))
    return (readLiterals(fields, 'depends_on') ?? []).map((service) => ({ service, condition: 'started' }))
  const read = (inner: Fields, service: string): ComposeService['dependsOn'] =>
    inner.table(service, (each) => {
      const condition = CONDITIONS[each.text('condition') ?? 'service_started']
      if (!condition) each.refuse('condition', 'invalid_value', `Must be one of ${Object.keys(CONDITIONS).join(', ')}.`)
      if (each.flag('required') === false)
        each.refuse('required', 'unsupported_key', 'Optional dependencies are not supported.')
      return [{ service, condition: condition ?? 'started' }]
    }) ?? []
  return fields.table('depends_on', (inner) => inner.keys().flatMap((service) => read(inner, service))) ?? []
}

function readHealthcheck(fields: Fields): ServiceHealthcheck {
  const [kind, ...words] = readTest(fields) ?? []
  const times = readTimes(fields)
  if (fields.flag('disable') || kind === 'NONE') return { kind: 'none' }
  if (kind === 'CMD' && words.length > 0) return { kind: 'exec', test: words, ...times }
  if (kind !== 'CMD-SHELL' || words.length !== 1) {
    fields.refuse('test', 'invalid_value', 'Must be a string, or a list that begins with CMD, CMD-SHELL or NONE.')
  }
  return { kind: 'shell', test: words, ...times }
}

/** Reads the timing of a health check. The defaults are those of Docker. */
const readTimes = (fields: Fields) => ({
  intervalSec: readSeconds(fields, 'interval') ?? 30,
  timeoutSec: readSeconds(fields, 'timeout') ?? 30,
  startPeriodSec: readSeconds(fields, 'start_period') ?? 0,
  startIntervalSec: readSeconds(fields, 'start_interval') ?? 5,
  retries: fields.number('retries', { min: 0, integer: true }) ?? 3,
})

function readTest(fields: Fields): string[] | undefined {
  const value = fields.value('test')
  if (typeof value !== 'string') return readLiterals(fields, 'test')
  const text = toLiteral(fields, value, `${fields.path}.test`)
  return text === undefined ? undefined : ['CMD-SHELL', text]
}

/** Reads `network_mode`. `$NETWORK_MODE`, which older versions of Harbor set, is ignored: task.toml decides. */
function readNetwork(fields: Fields): ComposeService['network'] {
  const mode = isSuppliedByHarbor(fields, 'network_mode') ? undefined : readLiteral(fields, 'network_mode')
  if (mode === undefined || mode === 'bridge' || mode === 'default') return 'default'
  if (mode !== 'none')
    fields.refuse('network_mode', 'unsupported_key', 'Unsupported network mode. Use none, bridge or default.')
  return 'none'
}

function readResources(fields: Fields): ComposeService['resources'] {
  const limits = fields.table('deploy', (deploy) =>
    deploy.table('resources', (resources) => {
      resources.table('reservations', (inner) => inner.keys().map((key) => inner.value(key)))
      return resources.table('limits', readLimits)
    }),
  )
  const own = {
    cpus: readCpus(fields),
    memoryMb: readMegabytes(fields, 'mem_limit'),
    pids: readPids(fields, 'pids_limit'),
  }
  return {
    cpus: own.cpus ?? limits?.cpus ?? null,
    memoryMb: own.memoryMb ?? limits?.memoryMb ?? null,
    pids: own.pids ?? limits?.pids ?? null,
    shmMb: readMegabytes(fields, 'shm_size'),
  }
}

/** Reads resource limits. `$CPUS` and `$MEMORY` stand for the values of task.toml, which apply anyway. */
function readLimits(fields: Fields): Omit<ComposeService['resources'], 'shmMb'> {
  return {
    cpus: isSuppliedByHarbor(fields, 'cpus') ? null : readCpus(fields),
    memoryMb: isSuppliedByHarbor(fields, 'memory') ? null : readMegabytes(fields, 'memory'),
    pids: readPids(fields, 'pids'),
  }
}

function isSuppliedByHarbor(fields: Fields, key: 'cpus' | 'memory' | 'network_mode'): boolean {
  const value = fields.value(key)
  const [variable] = typeof value === 'string' ? variablesOf(parseComposeTemplate(value) ?? []) : []
  return variable?.variable === key.toUpperCase()
}

const readCpus = (fields: Fields): number | null => fields.number('cpus', { above: 0 }) ?? null

const readPids = (fields: Fields, key: string): number | null => fields.number(key, { min: 1, integer: true }) ?? null
