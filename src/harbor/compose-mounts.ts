import { posix } from 'node:path'
import { literal, literalOf, megabytes } from './compose-values.ts'
import { type Fields, isTable, type Value } from './fields.ts'
import { pathFault } from './path-rules.ts'
import type { Mount } from './task.ts'
import { composeTemplate, variablesOf } from './template.ts'

/** The folder with the compose file: mounts and builds are relative to it and stay in it. */
type Place = { fields: Fields; folder: string }

export const readMounts = (fields: Fields, folder: string): Mount[] => [
  ...(fields.list('volumes', (value, path) => readMount({ fields, folder }, value, path)) ?? []),
  ...readTmpfs(fields),
]

function readTmpfs(fields: Fields): Mount[] {
  const value = fields.value('tmpfs')
  const targets = typeof value === 'string' ? [literal(fields, 'tmpfs') ?? ''] : (fields.texts('tmpfs') ?? [])
  return targets.map((target) => {
    if (!isTarget(target)) fields.refuse('tmpfs', 'invalid_value', ABSOLUTE)
    return { kind: 'tmpfs', target, sizeMb: null }
  })
}

function readMount(place: Place, value: Value, path: string): Mount | undefined {
  if (isTable(value)) return place.fields.open(value, path, (inner) => readLong({ ...place, fields: inner }))
  if (isOfHarbor(value)) {
    place.fields.report.warn(path, 'ignored_key', 'The folders for logs are always there.')
    return undefined
  }
  const text = literalOf(place.fields, value, path)
  return text === undefined ? undefined : readShort(place, text, path)
}

const LOG_VARIABLE = /^(HOST|ENV)_(VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH$/

/** Tasks of 2025 had to mount the folders for logs themselves. */
function isOfHarbor(value: Value): boolean {
  const [source] = typeof value === 'string' ? variablesOf(composeTemplate(value) ?? []) : []
  return source !== undefined && LOG_VARIABLE.test(source.variable)
}

/** `source:target:ro`, or only a target. */
function readShort(place: Place, text: string, path: string): Mount | undefined {
  const [first = '', second, mode = 'rw', ...more] = text.split(':')
  if (more.length > 0 || !['rw', 'ro', 'z', 'Z'].includes(mode)) {
    place.fields.report.refuse(path, 'unsupported_key', 'We read source:target, with :ro or :rw after it.')
    return undefined
  }
  const readOnly = mode === 'ro'
  if (second === undefined) return mounted(place, { kind: 'volume', name: null, target: first, readOnly }, path)
  const isPath = /^[./~]/.test(first)
  if (!isPath) return mounted(place, { kind: 'volume', name: first, target: second, readOnly }, path)
  return mounted(place, { kind: 'bind', source: inside(place, first, path), target: second, readOnly }, path)
}

const KINDS: readonly Mount['kind'][] = ['volume', 'bind', 'tmpfs']

function readLong(place: Place): Mount | undefined {
  const { fields } = place
  const kind = fields.oneOf('type', KINDS)
  const target = literal(fields, 'target') ?? ''
  const readOnly = fields.flag('read_only') ?? false
  const source = literal(fields, 'source') ?? null
  if (kind === 'volume') return mounted(place, { kind, name: source, target, readOnly }, fields.path)
  if (kind === 'bind') {
    return mounted(place, { kind, source: inside(place, source ?? '', fields.path), target, readOnly }, fields.path)
  }
  const sizeMb = fields.table('tmpfs', (inner) => megabytes(inner, 'size')) ?? null
  return kind && mounted(place, { kind, target, sizeMb }, fields.path)
}

const ABSOLUTE = 'Where it is mounted must be an absolute path.'

function mounted({ fields: { report } }: Place, mount: Mount, path: string): Mount {
  if (!isTarget(mount.target)) report.refuse(path, 'invalid_value', ABSOLUTE)
  if (mount.kind === 'volume' && mount.name !== null && !/^[a-zA-Z0-9][\w.-]{0,99}$/.test(mount.name)) {
    report.refuse(path, 'invalid_value', 'This cannot be the name of a volume.')
  }
  return mount
}

const isTarget = (path: string): boolean =>
  path.startsWith('/') && (path === '/' || pathFault(path.slice(1).replace(/\/$/, '')) === undefined)

/** A path in the folder of the task. Whatever else it names belongs to the host. */
export function inside({ fields, folder }: Place, source: string, path: string): string {
  const joined = posix.join(folder, source)
  const isInside = joined === folder || joined === `${folder}/` || joined.startsWith(`${folder}/`)
  if (source.startsWith('/') || source.startsWith('~') || !isInside) {
    fields.report.refuse(path, 'outside', `Only what is in ${folder}/ can be used, nothing of the host.`)
  }
  return joined.replace(/\/$/, '')
}
