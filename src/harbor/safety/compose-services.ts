import { isTable, type Value, type ValueTable } from '../fields.ts'
import type { RuleMatch } from './rule.ts'
import { memoize, type TaskView, type UsedCompose } from './view.ts'

/** An uninterpreted service of a compose file. */
type RawService = { path: string; name: string; settings: ValueTable; compose: UsedCompose }

export const listRawServices = memoize((view: TaskView): RawService[] => view.composes.flatMap(listServicesIn))

export function listServicesIn(compose: UsedCompose): RawService[] {
  const services = isTable(compose.table.services) ? Object.entries(compose.table.services) : []
  return services.flatMap(([name, settings]) =>
    isTable(settings) ? [{ path: `${compose.path}.services.${name}`, name, settings, compose }] : [],
  )
}

/** Returns a value, or the entries of a list, each with its key path. */
export function listEntriesAt(settings: ValueTable, path: string, key: string): { path: string; value: Value }[] {
  const value = settings[key]
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return [{ path: `${path}.${key}`, value }]
  return value.map((entry, index) => ({ path: `${path}.${key}.${index}`, value: entry }))
}

/** Returns true for any value except false. A variable could have any value, so it counts as enabled. */
export const isEnabled = (value: Value | undefined): boolean =>
  value !== undefined && value !== null && !(typeof value === 'string' && /^(?:false|no|off|n|)$/i.test(value))

/** Matches each of these keys in each service. */
export const matchEnabledKeys = (view: TaskView, keys: readonly string[], detail: string): RuleMatch[] =>
  listRawServices(view).flatMap(({ path, settings }) =>
    keys.filter((key) => isEnabled(settings[key])).map((key) => ({ path: `${path}.${key}`, detail })),
  )

/** Returns the build settings. `build: ./folder` is short for a context. */
export function findBuild({ settings }: RawService): ValueTable | undefined {
  const { build } = settings
  if (build === undefined || build === null) return undefined
  return isTable(build) ? build : { context: build }
}

/** Tests whether a path is inside the folder of the compose file. A path that begins with a variable is not. */
export function isInsideFolder(path: string): boolean {
  if (/^[/~$\\]|^[A-Za-z]:[\\/]/.test(path)) return false
  let depth = 0
  for (const part of path.split('/')) {
    if (part === '..') depth--
    else if (part !== '' && part !== '.') depth++
    if (depth < 0) return false
  }
  return true
}
