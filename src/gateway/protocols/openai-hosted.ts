import type { Json, JsonObject, Media } from '../wire.ts'
import { isFilled, isObject, listOf, objectOf, textOf } from './fields.ts'

// These run where the client is, or look through nothing but the tools of the request itself.
// Whatever is not known to do so is taken for the provider's own.
const OWN_TOOLS = ['function', 'custom', 'local_shell', 'apply_patch', 'tool_search']

/** Tools that the provider would run by itself, also those inside of others. */
export function foreignTools(tools: readonly Json[]): string[] {
  const found: string[] = []
  // A list and not a recursion: who nests deep must not break the stack.
  const waiting = [...tools]
  for (let tool = waiting.pop(); tool !== undefined; tool = waiting.pop()) {
    const { type, tools: inner, environment } = objectOf(tool)
    for (const each of listOf(inner)) waiting.push(each)
    const isOwn =
      type === 'namespace' ||
      (type === 'shell' && objectOf(environment).type === 'local') ||
      OWN_TOOLS.some((own) => own === type)
    if (!isOwn) found.push(textOf(type) ?? 'tool of no type')
  }
  return found
}

const ADDRESS_FIELDS = ['image_url', 'file_url', 'video_url', 'audio_url', 'document_url']

/** Pictures and files that the provider would fetch, or has. What carries its bytes with it is none. */
export const addressesOf = (parts: readonly Json[]): string[] =>
  parts
    .map(objectOf)
    .flatMap((part) => [
      ...ADDRESS_FIELDS.filter((field) => isFetched(part[field])),
      ...(isFilled(part.file_id) || isFilled(objectOf(part.file).file_id) ? ['file_id'] : []),
    ])

const isFetched = (value: Json | undefined): boolean => {
  const address = isObject(value) ? value.url : value
  return typeof address === 'string' && !/^data:/i.test(address)
}

/** Pictures and files that carry their bytes with them. */
export function mediaOf(part: JsonObject): keyof Media | undefined {
  if (part.type === 'file' || part.type === 'input_file') return 'documents'
  return part.image_url === undefined ? undefined : 'pictures'
}

export const ORDINARY_TIERS = ['auto', 'default', 'standard', 'on_demand']

const SOUNDS = ['input_audio', 'input_video', 'audio', 'video', 'video_url']

/** What is heard is not priced as what is read. */
export const soundsIn = (parts: readonly Json[]): string[] => [
  ...new Set(parts.flatMap((part) => SOUNDS.filter((name) => objectOf(part).type === name))),
]

// What is said, and not to be fetched.
const SPOKEN_FIELDS = ['type', 'text', 'refusal', 'thinking']

/** The same for the parts of a message, in which compatible providers look for addresses in fields of their own. */
export const addressesInParts = (parts: readonly Json[]): string[] =>
  parts.flatMap((part) => [
    ...addressesOf([part]),
    ...Object.entries(objectOf(part))
      .filter(([field, value]) => !SPOKEN_FIELDS.includes(field) && textsIn(value).some(isAddress))
      .map(([field]) => field),
  ])

const textsIn = (value: Json | undefined): string[] =>
  (isObject(value) ? Object.values(value) : [value]).filter((text) => typeof text === 'string')

const isAddress = (text: string): boolean => /^\s*[a-z][a-z0-9+.-]*:\/\//i.test(text)
