import { isTable, type Value } from '../fields.ts'
import { servicesIn } from './compose-services.ts'
import { oncePer } from './once.ts'
import type { UsedCompose } from './task-parts.ts'
import type { View } from './view.ts'

/** A place of a compose file that is filled from the environment of whoever starts it. */
export type AskedVariable = { path: string; name: string; hasFallback: boolean }

const VARIABLE = /\$(?:\$|\{([A-Za-z_]\w*)(:?[-+?][^}]?)?|([A-Za-z_]\w*))/g

export const variablesAsked = oncePer((view: View): AskedVariable[] => view.composes.flatMap(askedIn))

const askedIn = (compose: UsedCompose): AskedVariable[] => [
  ...inValue(compose.table, compose.path),
  ...passedThrough(compose),
]

function inValue(value: Value, path: string): AskedVariable[] {
  if (typeof value === 'string') return inText(value, path)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, entry]) => inValue(entry, `${path}.${key}`))
}

const inText = (text: string, path: string): AskedVariable[] =>
  [...text.matchAll(VARIABLE)].flatMap(([, braced, operator = '', bare]) => {
    const name = braced ?? bare
    return name === undefined ? [] : [{ path, name, hasFallback: /^:?-[^}]/.test(operator) }]
  })

/** A name without a value is handed through. */
const passedThrough = (compose: UsedCompose): AskedVariable[] =>
  servicesIn(compose).flatMap(({ path, settings: { environment } }) => {
    if (Array.isArray(environment)) {
      return environment
        .filter((entry) => typeof entry === 'string')
        .filter((entry) => /^[A-Za-z_]\w*$/.test(entry))
        .map((name) => ({ path: `${path}.environment.${name}`, name, hasFallback: false }))
    }
    const names = isTable(environment) ? Object.keys(environment).filter((name) => environment[name] === null) : []
    return names.map((name) => ({ path: `${path}.environment.${name}`, name, hasFallback: false }))
  })
