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

/** True if the value contains no objects: `JSON.stringify` is then canonical, and much faster for long lists. */
function isPlain(value: CanonicalJson): value is Exclude<CanonicalJson, JsonMembers> {
  if (value === null) return true
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError('JSON cannot represent this number')
  if (typeof value === 'string' && !value.isWellFormed())
    throw new TypeError('The string contains an unpaired surrogate')
  return typeof value !== 'object' || (isList(value) && value.every(isPlain))
}

const isList = (value: readonly CanonicalJson[] | JsonMembers): value is readonly CanonicalJson[] =>
  Array.isArray(value)
