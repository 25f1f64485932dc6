import type { Json, JsonObject, Media } from '../wire.ts'
import { objectOf, oneOrMore } from './fields.ts'

/** Both spellings are the same to the provider, so whoever looks for one must see the other. */
export const fields = (object: JsonObject, name: string): Json[] =>
  [object[name], object[snakeCase(name)]].filter((value) => value !== undefined)

export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

export const field = (object: JsonObject, name: string): Json | undefined => fields(object, name)[0]

export function mediaOf(part: JsonObject): keyof Media | undefined {
  const [data] = fields(part, 'inlineData').map(objectOf)
  if (!data) return undefined
  return /^\s*image\//i.test(String(field(data, 'mimeType'))) ? 'pictures' : 'documents'
}

/** What is heard is not priced as what is read. */
export const isHeard = (part: JsonObject): boolean =>
  fields(part, 'inlineData').some((data) =>
    fields(objectOf(data), 'mimeType').some((type) => /^\s*(audio|video)\//i.test(String(type))),
  )

/** Of all that is said, and of what functions gave back. */
export function partsIn(body: JsonObject): JsonObject[] {
  const contents = [...oneOrMore(body.contents), ...fields(body, 'systemInstruction').flatMap(oneOrMore)]
  const parts = contents.flatMap((content) => oneOrMore(objectOf(content).parts)).map(objectOf)
  const answered = parts
    .flatMap((part) => fields(part, 'functionResponse'))
    .flatMap((response) => oneOrMore(objectOf(response).parts))
  return [...parts, ...answered.map(objectOf)]
}
