import type { Json } from './stage.ts'

const NUL = /\0/g

/** PostgreSQL keeps neither NUL nor half a surrogate pair, and strangers write both. */
export const storableText = (text: string): string => text.toWellFormed().replace(NUL, '\ufffd')

/** The same for everything in it. A field that is undefined is left out. */
export function storable(value: Json): Json {
  if (typeof value === 'string') return storableText(value)
  if (Array.isArray(value)) return value.map(storable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) =>
      member === undefined ? [] : [[storableText(name), storable(member)] as const],
    ),
  )
}
