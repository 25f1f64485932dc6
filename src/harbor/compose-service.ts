import { inside, readMounts } from './compose-mounts.ts'
import { command, environment, literal, literalOf, literals, megabytes, seconds, template } from './compose-values.ts'
import { type Fields, isTable } from './fields.ts'
import type { Build, Service, ServiceHealthcheck } from './task.ts'
import { composeTemplate, plainText, variablesOf } from './template.ts'

/** They change nothing inside a sandbox. */
const IGNORED = [
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

export function readService(fields: Fields, name: string, folder: string): Service {
  for (const key of IGNORED.filter(fields.has)) fields.warn(key, 'ignored_key', 'It makes no difference in a sandbox.')
  return {
    name,
    image: template(fields, 'image') ?? null,
    build: readBuild(fields, folder),
    command: command(fields, 'command'),
    entrypoint: command(fields, 'entrypoint'),
    env: environment(fields, 'environment'),
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

const readNames = (fields: Fields): Pick<Service, 'user' | 'workdir' | 'hostname' | 'stopSignal' | 'platform'> => ({
  user: literal(fields, 'user') ?? null,
  workdir: literal(fields, 'working_dir') ?? null,
  hostname: literal(fields, 'hostname') ?? null,
  stopSignal: literal(fields, 'stop_signal') ?? null,
  platform: literal(fields, 'platform') ?? null,
})

function readBuild(fields: Fields, folder: string): Build | null {
  const value = fields.value('build')
  if (value === undefined) return null
  if (!isTable(value)) {
    return { context: readContext(fields, 'build', folder), dockerfile: 'Dockerfile', target: null, args: [] }
  }
  const read = (inner: Fields): Build => {
    const context = readContext(inner, 'context', folder)
    const dockerfile = literal(inner, 'dockerfile') ?? 'Dockerfile'
    inside(
      { fields: inner, folder },
      `${context.slice(folder.length + 1)}/${dockerfile}`.replace(/^\//, ''),
      inner.path,
    )
    return { context, dockerfile, target: literal(inner, 'target') ?? null, args: environment(inner, 'args') }
  }
  return fields.table('build', read) ?? null
}

/** Harbor hands the folder over in CONTEXT_DIR. */
function readContext(fields: Fields, key: string, folder: string): string {
  const value = fields.value(key)
  const template = typeof value === 'string' ? composeTemplate(value) : undefined
  const [first] = template ?? []
  if (template?.length === 1 && typeof first === 'object' && first.variable === 'CONTEXT_DIR') return folder
  return inside({ fields, folder }, literal(fields, key) ?? '.', `${fields.path}.${key}`)
}

/** On the network of its sandbox a container is found by its own name too. */
function readAliases(fields: Fields): string[] {
  const value = fields.value('container_name')
  const template = typeof value === 'string' ? composeTemplate(value) : undefined
  const name = template && plainText(template)
  if (value !== undefined && name === undefined) {
    fields.warn('container_name', 'ignored_key', 'A container has a name of ours.')
  }
  return name ? [name] : []
}

const CONDITIONS: Record<string, Service['dependsOn'][number]['condition']> = {
  service_started: 'started',
  service_healthy: 'healthy',
  service_completed_successfully: 'completed',
}

function readDependencies(fields: Fields): Service['dependsOn'] {
  const value = fields.value('depends_on')
  if (value === undefined) return []
  if (!isTable(value))
    return (literals(fields, 'depends_on') ?? []).map((service) => ({ service, condition: 'started' }))
  const read = (inner: Fields, service: string): Service['dependsOn'] =>
    inner.table(service, (each) => {
      const condition = CONDITIONS[each.text('condition') ?? 'service_started']
      if (!condition)
        each.refuse('condition', 'invalid_value', `One of ${Object.keys(CONDITIONS).join(', ')} is expected.`)
      if (each.flag('required') === false) each.refuse('required', 'unsupported_key', 'Every dependency is required.')
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
    fields.refuse('test', 'invalid_value', 'A text, or a list that begins with CMD, CMD-SHELL or NONE, is expected.')
  }
  return { kind: 'shell', test: words, ...times }
}

/** The defaults are Docker's. */
const readTimes = (fields: Fields) => ({
  intervalSec: seconds(fields, 'interval') ?? 30,
  timeoutSec: seconds(fields, 'timeout') ?? 30,
  startPeriodSec: seconds(fields, 'start_period') ?? 0,
  startIntervalSec: seconds(fields, 'start_interval') ?? 5,
  retries: fields.number('retries', { min: 0, integer: true }) ?? 3,
})

function readTest(fields: Fields): string[] | undefined {
  const value = fields.value('test')
  if (typeof value !== 'string') return literals(fields, 'test')
  const text = literalOf(fields, value, `${fields.path}.test`)
  return text === undefined ? undefined : ['CMD-SHELL', text]
}

/** Harbor once handed over the mode in NETWORK_MODE; now task.toml decides. */
function readNetwork(fields: Fields): Service['network'] {
  const mode = isHandedOver(fields, 'network_mode') ? undefined : literal(fields, 'network_mode')
  if (mode === undefined || mode === 'bridge' || mode === 'default') return 'default'
  if (mode !== 'none')
    fields.refuse('network_mode', 'unsupported_key', 'A service is on the network of its task or on none.')
  return 'none'
}

function readResources(fields: Fields): Service['resources'] {
  const limits = fields.table('deploy', (deploy) =>
    deploy.table('resources', (resources) => {
      resources.table('reservations', (inner) => inner.keys().map((key) => inner.value(key)))
      return resources.table('limits', readLimits)
    }),
  )
  const own = { cpus: readCpus(fields), memoryMb: megabytes(fields, 'mem_limit'), pids: readPids(fields, 'pids_limit') }
  return {
    cpus: own.cpus ?? limits?.cpus ?? null,
    memoryMb: own.memoryMb ?? limits?.memoryMb ?? null,
    pids: own.pids ?? limits?.pids ?? null,
    shmMb: megabytes(fields, 'shm_size'),
  }
}

/** Harbor hands over what task.toml says in CPUS and MEMORY, which we do anyway. */
function readLimits(fields: Fields): Omit<Service['resources'], 'shmMb'> {
  return {
    cpus: isHandedOver(fields, 'cpus') ? null : readCpus(fields),
    memoryMb: isHandedOver(fields, 'memory') ? null : megabytes(fields, 'memory'),
    pids: readPids(fields, 'pids'),
  }
}

function isHandedOver(fields: Fields, key: 'cpus' | 'memory' | 'network_mode'): boolean {
  const value = fields.value(key)
  const [variable] = typeof value === 'string' ? variablesOf(composeTemplate(value) ?? []) : []
  return variable?.variable === key.toUpperCase()
}

const readCpus = (fields: Fields): number | null => fields.number('cpus', { above: 0 }) ?? null

const readPids = (fields: Fields, key: string): number | null => fields.number(key, { min: 1, integer: true }) ?? null
