import { isTable, type Value, type ValueTable } from '../fields.ts'
import { oncePer } from './once.ts'
import type { Found } from './rule.ts'
import type { UsedCompose } from './task-parts.ts'
import type { View } from './view.ts'

/** A service of a compose file, as it is written. */
export type RawService = { path: string; name: string; settings: ValueTable; compose: UsedCompose }

export const servicesOf = oncePer((view: View): RawService[] => view.composes.flatMap(servicesIn))

export function servicesIn(compose: UsedCompose): RawService[] {
  const services = isTable(compose.table.services) ? Object.entries(compose.table.services) : []
  return services.flatMap(([name, settings]) =>
    isTable(settings) ? [{ path: `${compose.path}.services.${name}`, name, settings, compose }] : [],
  )
}

/** A value or a list of values, each with the key that leads to it. */
export function entriesAt(settings: ValueTable, path: string, key: string): { path: string; value: Value }[] {
  const value = settings[key]
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return [{ path: `${path}.${key}`, value }]
  return value.map((entry, place) => ({ path: `${path}.${key}.${place}`, value: entry }))
}

/** Whether a key says something other than no. A variable could say anything. */
export const isOn = (value: Value | undefined): boolean =>
  value !== undefined && value !== null && !(typeof value === 'string' && /^(?:false|no|off|n|)$/i.test(value))

/** One finding for each service that has one of these keys. */
export const whereSet = (view: View, keys: readonly string[], detail: string): Found[] =>
  servicesOf(view).flatMap(({ path, settings }) =>
    keys.filter((key) => isOn(settings[key])).map((key) => ({ path: `${path}.${key}`, detail })),
  )

/** The table of settings of a build; `build: ./folder` is a context. */
export function buildOf({ settings }: RawService): ValueTable | undefined {
  const { build } = settings
  if (build === undefined || build === null) return undefined
  return isTable(build) ? build : { context: build }
}

/** Whether a path is one of the folder that the compose file lies in. What a variable names is not known to be. */
export function isInside(path: string): boolean {
  if (/^[/~$\\]|^[A-Za-z]:[\\/]/.test(path)) return false
  let depth = 0
  for (const part of path.split('/')) {
    if (part === '..') depth--
    else if (part !== '' && part !== '.') depth++
    if (depth < 0) return false
  }
  return true
}
