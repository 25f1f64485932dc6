import { posix } from 'node:path'
import { readLiteral, readMegabytes, toLiteral } from './compose-values.ts'
import { type Fields, isTable, type Value } from './fields.ts'
import { findPathFault } from './paths.ts'
import type { ComposeMount } from './task.ts'
import { parseComposeTemplate, variablesOf } from './template.ts'

/** Mounts and builds are relative to `folder`, the folder of the compose file, and must stay in it. */
type ComposeContext = { fields: Fields; folder: string }

export const readMounts = (fields: Fields, folder: string): ComposeMount[] => [
  ...(fields.list('volumes', (value, path) => readMount({ fields, folder }, value, path)) ?? []),
  ...readTmpfs(fields),
]

function readTmpfs(fields: Fields): ComposeMount[] {
  const value = fields.value('tmpfs')
  const targets = typeof value === 'string' ? [readLiteral(fields, 'tmpfs') ?? ''] : (fields.texts('tmpfs') ?? [])
  return targets.map((target) => {
    if (!isTarget(target)) fields.refuse('tmpfs', 'invalid_value', ABSOLUTE)
    return { kind: 'tmpfs', target, sizeMb: null }
  })
}

function readMount(context: ComposeContext, value: Value, path: string): ComposeMount | undefined {
  if (isTable(value)) return context.fields.open(value, path, (inner) => readLongMount({ ...context, fields: inner }))
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

const ABSOLUTE = 'The mount target must be an absolute path.'

function checkMount({ fields: { report } }: ComposeContext, mount: ComposeMount, path: string): ComposeMount {
  if (!isTarget(mount.target)) report.refuse(path, 'invalid_value', ABSOLUTE)
  if (mount.kind === 'volume' && mount.name !== null && !/^[a-zA-Z0-9][\w.-]{0,99}$/.test(mount.name)) {
    report.refuse(path, 'invalid_value', 'Invalid volume name.')
  }
  return mount
}

const isTarget = (path: string): boolean =>
  path.startsWith('/') && (path === '/' || findPathFault(path.slice(1).replace(/\/$/, '')) === undefined)

/**
 * Resolves a path relative to the compose file. Refuses paths that leave the folder, since those belong to the host.
 */
export function resolveInside({ fields, folder }: ComposeContext, source: string, path: string): string {
  const joined = posix.join(folder, source)
  const isInside = joined === folder || joined === `${folder}/` || joined.startsWith(`${folder}/`)
  if (source.startsWith('/') || source.startsWith('~') || !isInside) {
    fields.report.refuse(path, 'outside', `The path must be inside ${folder}/.`)
  }
  return joined.replace(/\/$/, '')
}
