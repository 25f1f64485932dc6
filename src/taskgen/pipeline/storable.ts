import type { Json } from '../../harnesses/json.ts'

const NUL = /\0/g

/** PostgreSQL rejects NUL and lone surrogates, which untrusted text may contain. */
export const toStorableText = (text: string): string => text.toWellFormed().replace(NUL, '\ufffd')

/** Applies `toStorableText` to every string. Undefined fields are dropped. */
export function toStorable(value: Json): Json {
  if (typeof value === 'string') return toStorableText(value)
  if (Array.isArray(value)) return value.map(toStorable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) =>
      member === undefined ? [] : [[toStorableText(name), toStorable(member)] as const],
    ),
  )
}
