import { type Fields, isTable, toText, type Value } from './fields.ts'
import type { CollectHook, EnvVar, Healthcheck, User } from './task.ts'
import { parseWholeTemplate } from './template.ts'

const ENV_NAME_LENGTH_MAX = 200
const ENV_VARS_MAX = 1000

/** Reads a table of environment variables or headers. */
export function readEnv(fields: Fields, key: string): EnvVar[] {
  const table = fields.value(key)
  if (table === undefined) return []
  if (!isTable(table)) {
    fields.refuse(key, 'wrong_type', 'Must be a table of strings.')
    return []
  }
  const entries = Object.entries(table)
  if (entries.length > ENV_VARS_MAX) fields.refuse(key, 'too_many', `The limit is ${ENV_VARS_MAX} variables.`)
  return entries.slice(0, ENV_VARS_MAX).flatMap(([name, value]) => readVariable(fields, key, name, value))
}

function readVariable(fields: Fields, key: string, name: string, value: Value): EnvVar[] {
  const path = `${fields.path}.${key}.${name}`
  if (!isEnvName(name)) fields.report.refuse(path, 'invalid_value', 'Invalid variable name.')
  const text = toText(value, path, fields.report)
  return text === undefined ? [] : [{ name, value: parseWholeTemplate(text) }]
}

/** Accepts every name that an operating system accepts, including dots and dashes. */
export const isEnvName = (name: string): boolean =>
  name !== '' && name.length <= ENV_NAME_LENGTH_MAX && !/[=\s\p{C}]/u.test(name)

/** Merges lists of variables. A later value replaces an earlier one of the same name, at the position of the earlier one. */
export const mergeEnv = (...lists: EnvVar[][]): EnvVar[] => [
  ...new Map(lists.flat().map((variable) => [variable.name, variable])).values(),
]

export function readUser(fields: Fields): User {
  const value = fields.value('user')
  if (value === undefined) return null
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  if (typeof value === 'string' && /^[\w.$:-]{1,64}$/.test(value)) return value
  fields.refuse('user', 'invalid_value', 'Must be the name or number of a user.')
  return null
}

/** About thirty years. */
const SECONDS_MAX = 1e9

export const readTimeoutSec = (fields: Fields, key: string): number | undefined =>
  fields.number(key, { above: 0, max: SECONDS_MAX })

const readIntervalSec = (fields: Fields, key: string): number | undefined =>
  fields.number(key, { min: 0, max: SECONDS_MAX })

export const readHealthcheck = (fields: Fields): Healthcheck => ({
  command: fields.requiredText('command'),
  intervalSec: readIntervalSec(fields, 'interval_sec') ?? 5,
  timeoutSec: readTimeoutSec(fields, 'timeout_sec') ?? 30,
  startPeriodSec: readIntervalSec(fields, 'start_period_sec') ?? 0,
  startIntervalSec: readIntervalSec(fields, 'start_interval_sec') ?? 5,
  retries: fields.number('retries', { min: 0, max: 1e6, integer: true }) ?? 3,
})

export const readCollectHook = (fields: Fields): CollectHook => ({
  command: fields.requiredText('command'),
  service: readServiceName(fields),
  timeoutSec: readTimeoutSec(fields, 'timeout_sec') ?? 60,
  user: readUser(fields),
})

export const MAIN_SERVICE = 'main'

/** Harbor's command to keep a container alive. An entrypoint receives it as its arguments. */
export const SLEEP_COMMAND: readonly string[] = ['sh', '-c', 'sleep infinity']

const SERVICE = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/

export const isServiceName = (name: string): boolean => name.length <= 255 && SERVICE.test(name)

/** Reads the name of the compose service that an artifact or a hook refers to. The default is the agent's service. */
export function readServiceName(fields: Fields): string {
  const name = fields.text('service')?.trim()
  if (name !== undefined && !isServiceName(name)) {
    fields.refuse('service', 'invalid_value', 'Invalid compose service name.')
  }
  return name ?? MAIN_SERVICE
}
