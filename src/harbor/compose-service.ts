import { posix } from 'node:path'
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
import { type Fields, isTable, type Value } from './fields.ts'
import { findPathFault } from './paths.ts'
import type { ComposeBuild, ComposeMount, ComposeService, ServiceHealthcheck } from './task.ts'
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
    user: readLiteral(fields, 'user') ?? null,
    workdir: readLiteral(fields, 'working_dir') ?? null,
    hostname: readLiteral(fields, 'hostname') ?? null,
    stopSignal: readLiteral(fields, 'stop_signal') ?? null,
    platform: readLiteral(fields, 'platform') ?? null,
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

function readBuild(fields: Fields, folder: string): ComposeBuild | null {
  const value = fields.value('build')
  if (value === undefined) return null
  if (!isTable(value)) {
    return { context: readContext(fields, 'build', folder), dockerfile: 'Dockerfile', target: null, args: [] }
  }
  const read = (inner: Fields): ComposeBuild => {
    const context = readContext(inner, 'context', folder)
    const dockerfile = readLiteral(inner, 'dockerfile') ?? 'Dockerfile'
    const contextInFolder = context.slice(folder.length + 1)
    const dockerfileInFolder = contextInFolder === '' ? dockerfile : `${contextInFolder}/${dockerfile}`
    // Called only to refuse a Dockerfile outside the folder. The returned path stays relative to the context.
    resolveInside({ fields: inner, folder }, dockerfileInFolder, inner.path)
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
      // Reservations have no effect. Reading their keys keeps them from being reported as unsupported.
      resources.table('reservations', (inner) => inner.keys().map((key) => inner.value(key)))
      return resources.table('limits', readLimits)
    }),
  )
  const ownLimits = {
    cpus: readCpus(fields),
    memoryMb: readMegabytes(fields, 'mem_limit'),
    pids: readPids(fields, 'pids_limit'),
  }
  return {
    cpus: ownLimits.cpus ?? limits?.cpus ?? null,
    memoryMb: ownLimits.memoryMb ?? limits?.memoryMb ?? null,
    pids: ownLimits.pids ?? limits?.pids ?? null,
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

/** Returns true if the value is the variable that Harbor sets for this key, such as `$CPUS` for `cpus`. */
function isSuppliedByHarbor(fields: Fields, key: 'cpus' | 'memory' | 'network_mode'): boolean {
  const value = fields.value(key)
  const [variable] = typeof value === 'string' ? variablesOf(parseComposeTemplate(value) ?? []) : []
  return variable?.variable === key.toUpperCase()
}

const readCpus = (fields: Fields): number | null => fields.number('cpus', { above: 0 }) ?? null

const readPids = (fields: Fields, key: string): number | null => fields.number(key, { min: 1, integer: true }) ?? null

/** A service and the folder of its compose file. Mounts and builds are relative to the folder and must stay in it. */
type ComposeContext = { fields: Fields; folder: string }

const readMounts = (fields: Fields, folder: string): ComposeMount[] => [
  ...(fields.list('volumes', (value, path) => readMount({ fields, folder }, value, path)) ?? []),
  ...readTmpfs(fields),
]

function readTmpfs(fields: Fields): ComposeMount[] {
  const value = fields.value('tmpfs')
  const targets = typeof value === 'string' ? [readLiteral(fields, 'tmpfs') ?? ''] : (fields.texts('tmpfs') ?? [])
  return targets.map((target) => {
    if (!isMountTarget(target)) fields.refuse('tmpfs', 'invalid_value', TARGET_NOT_ABSOLUTE)
    return { kind: 'tmpfs', target, sizeMb: null }
  })
}

function readMount(context: ComposeContext, value: Value, path: string): ComposeMount | undefined {
  if (isTable(value))
    return context.fields.entryTable(value, path, (inner) => readLongMount({ ...context, fields: inner }))
  if (isLogMount(value)) {
    context.fields.report.warn(path, 'ignored_key', 'The log folders are always mounted.')
    return undefined
  }
  const text = toLiteral(context.fields, value, path)
  return text === undefined ? undefined : readShortMount(context, text, path)
}

const LOG_VARIABLE = /^(HOST|ENV)_(VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH$/

/** Recognises the mounts of log folders that Harbor required from tasks until 2025. */
function isLogMount(value: Value): boolean {
  const [source] = typeof value === 'string' ? variablesOf(parseComposeTemplate(value) ?? []) : []
  return source !== undefined && LOG_VARIABLE.test(source.variable)
}

/** Reads `source:target:ro`, or a target alone. */
function readShortMount(context: ComposeContext, text: string, path: string): ComposeMount | undefined {
  const [first = '', second, mode = 'rw', ...more] = text.split(':')
  if (more.length > 0 || !['rw', 'ro', 'z', 'Z'].includes(mode)) {
    context.fields.report.refuse(
      path,
      'unsupported_key',
      'Unsupported volume syntax. Write source:target, optionally followed by :ro or :rw.',
    )
    return undefined
  }
  const readOnly = mode === 'ro'
  if (second === undefined) return checkMount(context, { kind: 'volume', name: null, target: first, readOnly }, path)
  const isPath = /^[./~]/.test(first)
  if (!isPath) return checkMount(context, { kind: 'volume', name: first, target: second, readOnly }, path)
  return checkMount(
    context,
    { kind: 'bind', source: resolveInside(context, first, path), target: second, readOnly },
    path,
  )
}

const KINDS: readonly ComposeMount['kind'][] = ['volume', 'bind', 'tmpfs']

function readLongMount(context: ComposeContext): ComposeMount | undefined {
  const { fields } = context
  const kind = fields.oneOf('type', KINDS)
  const target = readLiteral(fields, 'target') ?? ''
  const readOnly = fields.flag('read_only') ?? false
  const source = readLiteral(fields, 'source') ?? null
  if (kind === 'volume') return checkMount(context, { kind, name: source, target, readOnly }, fields.path)
  if (kind === 'bind') {
    return checkMount(
      context,
      { kind, source: resolveInside(context, source ?? '', fields.path), target, readOnly },
      fields.path,
    )
  }
  const sizeMb = fields.table('tmpfs', (inner) => readMegabytes(inner, 'size')) ?? null
  return kind && checkMount(context, { kind, target, sizeMb }, fields.path)
}

const TARGET_NOT_ABSOLUTE = 'The mount target must be an absolute path.'

function checkMount({ fields: { report } }: ComposeContext, mount: ComposeMount, path: string): ComposeMount {
  if (!isMountTarget(mount.target)) report.refuse(path, 'invalid_value', TARGET_NOT_ABSOLUTE)
  if (mount.kind === 'volume' && mount.name !== null && !/^[a-zA-Z0-9][\w.-]{0,99}$/.test(mount.name)) {
    report.refuse(path, 'invalid_value', 'Invalid volume name.')
  }
  return mount
}

const isMountTarget = (path: string): boolean =>
  path.startsWith('/') && (path === '/' || findPathFault(path.slice(1).replace(/\/$/, '')) === undefined)

/**
 * Resolves a path relative to the compose file. Refuses paths that leave the folder, since those belong to the host.
 */
function resolveInside({ fields, folder }: ComposeContext, source: string, path: string): string {
  const joined = posix.join(folder, source)
  const isInside = joined === folder || joined === `${folder}/` || joined.startsWith(`${folder}/`)
  if (source.startsWith('/') || source.startsWith('~') || !isInside) {
    fields.report.refuse(path, 'outside', `The path must be inside ${folder}/.`)
  }
  return joined.replace(/\/$/, '')
}
