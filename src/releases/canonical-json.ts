export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/**
 * One text for one value, by RFC 8785: no spaces, names in the order of their UTF-16 units, numbers and strings as
 * JavaScript writes them. What JSON cannot say is refused.
 */
export function canonicalJson(value: Json): string {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError('JSON has no such number.')
  if (typeof value === 'string' && !value.isWellFormed()) throw new TypeError('Half a character is no text.')
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (isList(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = Object.keys(value)
    .sort()
    .map((name) => `${canonicalJson(name)}:${canonicalJson(value[name] ?? null)}`)
  return `{${members.join(',')}}`
}

const isList = (value: object): value is readonly Json[] => Array.isArray(value)
