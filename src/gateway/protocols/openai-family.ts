import { isObject, type Json, type JsonObject } from '../../harnesses/json.ts'
import type { MediaKind } from '../wire-protocol.ts'
import { isFilled, keepMembers, listOf, objectOf, textOf } from './fields.ts'

/**
 * Tools that run in the client, or that search only the tools of the request. Unknown tools count as server-side
 * tools.
 */
const CLIENT_TOOLS = ['function', 'custom', 'local_shell', 'apply_patch', 'tool_search']

/** Lists server-side tools, including nested ones. */
export function listServerSideTools(tools: readonly Json[]): string[] {
  const names: string[] = []
  // Iterative, because untrusted input may be nested deeply enough to overflow the stack.
  const pending = [...tools]
  for (let tool = pending.pop(); tool !== undefined; tool = pending.pop()) {
    const { type, tools: inner, environment } = objectOf(tool)
    for (const each of listOf(inner)) pending.push(each)
    const isClientTool =
      type === 'namespace' ||
      (type === 'shell' && objectOf(environment).type === 'local') ||
      CLIENT_TOOLS.some((each) => each === type)
    if (!isClientTool) names.push(textOf(type) ?? 'tool without type')
  }
  return names
}

/** Members of both APIs. `metadata` is not forwarded: proxies choose a model by its entries. */
const COMMON_MEMBERS = [
  'model',
  'parallel_tool_calls',
  'prompt_cache_key',
  'prompt_cache_retention',
  'reasoning',
  'safety_identifier',
  'service_tier',
  'store',
  'stream',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'user',
]

/**
 * Returns a function that keeps only the common members and the given ones. Nothing may ask the provider to store an
 * answer.
 */
export function createMemberFilter(names: readonly string[]): (body: JsonObject) => JsonObject {
  const members = new Set([...COMMON_MEMBERS, ...names])
  const unstored = new Set([...members].filter((name) => name !== 'store'))
  return (body) => keepMembers(body, body.store === false ? members : unstored)
}

const URL_FIELDS = ['image_url', 'file_url', 'video_url', 'audio_url', 'document_url']

/** Lists fields with media that the provider would fetch or already stores. Inline media is not listed. */
export const listRemoteMedia = (parts: readonly Json[]): string[] =>
  parts
    .map(objectOf)
    .flatMap((part) => [
      ...URL_FIELDS.filter((field) => isFetched(part[field])),
      ...(isFilled(part.file_id) || isFilled(objectOf(part.file).file_id) ? ['file_id'] : []),
    ])

const isFetched = (value: Json | undefined): boolean => {
  const address = isObject(value) ? value.url : value
  return typeof address === 'string' && !/^data:/i.test(address)
}

/**
 * Maximum tokens of a picture. Models of OpenAI count a token and a fifth for each square of 32 pixels, up to 6,000 pixels
 * on each side. Compatible providers count less.
 */
export const PICTURE_TOKENS_MAX = 45_000

/** Returns the kind of inline media in a part. */
export function mediaOf(part: JsonObject): MediaKind | undefined {
  if (part.type === 'file' || part.type === 'input_file') return 'documents'
  return part.image_url === undefined ? undefined : 'pictures'
}

/** Service tiers that are billed at the list price. */
export const ORDINARY_TIERS = ['auto', 'default', 'standard', 'on_demand']

const AUDIO_TYPES = ['input_audio', 'input_video', 'audio', 'video', 'video_url']

/** Lists audio and video parts, which have another price than text. */
export const listAudio = (parts: readonly Json[]): string[] => [
  ...new Set(parts.flatMap((part) => AUDIO_TYPES.filter((name) => objectOf(part).type === name))),
]

/** Members with text that is never fetched. */
const TEXT_FIELDS = ['type', 'text', 'refusal', 'thinking']

/** Lists remote media in message parts, including URLs in fields of compatible providers. */
export const listRemoteMediaInParts = (parts: readonly Json[]): string[] =>
  parts.flatMap((part) => [
    ...listRemoteMedia([part]),
    ...Object.entries(objectOf(part))
      .filter(([field, value]) => !TEXT_FIELDS.includes(field) && textsIn(value).some(isUrl))
      .map(([field]) => field),
  ])

const textsIn = (value: Json | undefined): string[] =>
  (isObject(value) ? Object.values(value) : [value]).filter((text) => typeof text === 'string')

const isUrl = (text: string): boolean => /^\s*[a-z][a-z0-9+.-]*:\/\//i.test(text)

const ERROR_TYPES: Record<number, string> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

/** Formats an error of the Chat Completions and Responses APIs. */
export const formatOpenaiError = (status: number, code: string, message: string): JsonObject => ({
  error: {
    message,
    type: ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
    param: null,
    code,
  },
})
