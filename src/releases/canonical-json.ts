export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/**
 * One text for one value, by RFC 8785: no spaces, names in the order of their UTF-16 units, numbers and strings as
 * JavaScript writes them. What JSON cannot say is refused.
 */
export function canonicalJson(value: Json): string {
  if (isPlain(value)) return JSON.stringify(value)
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.keys(value)
    .sort()
    .map((name) => `${canonicalJson(name)}:${canonicalJson(value[name] ?? null)}`)
  return `{${members.join(',')}}`
}

type Members = { readonly [name: string]: Json }

/** Without names to put in order: then JavaScript's own text is the canonical one. Most of what there is, is such lists. */
function isPlain(value: Json): value is Exclude<Json, Members> {
  if (value === null) return true
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError('JSON has no such number.')
  if (typeof value === 'string' && !value.isWellFormed()) throw new TypeError('Half a character is no text.')
  return typeof value !== 'object' || (isList(value) && value.every(isPlain))
}

const isList = (value: readonly Json[] | Members): value is readonly Json[] => Array.isArray(value)
