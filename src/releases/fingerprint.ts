import { createHash } from 'node:crypto'
import { listTasks, type SettingResult } from './aggregate.ts'
import type { ResultCell } from './cohort.ts'

/**
 * Hashes all results of a repository and its approved tasks. Ids of trials, times, the previous release and the selection
 * are not part of it.
 */
export const computeFingerprint = (results: readonly SettingResult[], approved: Iterable<string>): string =>
  hashResults(results, [...approved].sort())

/** Hashes the content of a release with these settings. */
export const computeContentHash = (chosen: readonly SettingResult[]): string => hashResults(chosen, listTasks(chosen))

/** Hashes the canonical JSON of `{settings, tasks, version}`, assembled from the cached JSON of each setting. */
function hashResults(results: readonly SettingResult[], tasks: string[]): string {
  const settings = results.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(toCanonicalText)
  const text = `{"settings":[${settings.join(',')}],"tasks":${canonicalJson(tasks)},"version":1}`
  return createHash('sha256').update(text).digest('hex')
}

const textCache = new WeakMap<SettingResult, string>()

/** Returns a result as canonical JSON. Cached, because the text is long and needed for every selection. */
function toCanonicalText(result: SettingResult): string {
  const text = textCache.get(result) ?? canonicalJson(toHashedFields(result))
  textCache.set(result, text)
  return text
}

/** Fingerprints of results without configurations must not change, so the field is absent there. */
const toHashedFields = (result: SettingResult): CanonicalJson => ({
  id: result.id,
  ...(result.configuration ? { configuration: { ...result.configuration } } : {}),
  model: { ...result.model },
  harness: result.harness,
  reasoningLevel: result.reasoningLevel,
  provider: result.provider,
  custom: result.custom,
  isolation: result.isolation,
  cohort: result.cohort && { ...result.cohort },
  errored: result.errored,
  voided: result.voided,
  reason: result.reason ?? null,
  results: result.cells.map(toHashedCell),
})

const toHashedCell = ({ task, passed, costMicros, costSource, trials, passes, usage }: ResultCell): CanonicalJson => [
  task,
  passed,
  costMicros,
  costSource,
  trials,
  passes,
  usage && [usage.input, usage.cacheRead, usage.cacheWrite, usage.output, usage.reasoning],
]

export type CanonicalJson =
  | null
  | boolean
  | number
  | string
  | readonly CanonicalJson[]
  | { readonly [name: string]: CanonicalJson }

/**
 * Serializes a value as canonical JSON (RFC 8785): no whitespace, names sorted by UTF-16 code units, numbers and strings
 * as JavaScript writes them. Throws for values that JSON cannot represent.
 */
export function canonicalJson(value: CanonicalJson): string {
  if (isPlain(value)) return JSON.stringify(value)
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.keys(value)
    .sort()
    .map((name) => `${canonicalJson(name)}:${canonicalJson(value[name] ?? null)}`)
  return `{${members.join(',')}}`
}

type JsonMembers = { readonly [name: string]: CanonicalJson }

/** Returns true if the value contains no objects: `JSON.stringify` is then canonical, and much faster for long lists. */
function isPlain(value: CanonicalJson): value is Exclude<CanonicalJson, JsonMembers> {
  if (value === null) return true
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError('JSON cannot represent this number')
  if (typeof value === 'string' && !value.isWellFormed())
    throw new TypeError('The string contains an unpaired surrogate')
  return typeof value !== 'object' || (isList(value) && value.every(isPlain))
}

const isList = (value: readonly CanonicalJson[] | JsonMembers): value is readonly CanonicalJson[] =>
  Array.isArray(value)
