import { isObject, type Json, type JsonObject } from '../../harnesses/json.ts'
import type { AnswerError, ParsedRequest, Usage, UsageMeter, WireOperation, WireProtocol } from '../wire-protocol.ts'
import {
  byteLength,
  classifyError,
  countMedia,
  createEventHandler,
  isFilled,
  limitOf,
  listInvalidCounts,
  listOf,
  listRerouting,
  listUnusual,
  NO_ALTERNATIVES,
  objectOf,
  oneOrMore,
  PRICED_MEMBERS,
  splitInput,
  TOKENS,
  textOf,
  tokensOf,
  withModel,
} from './fields.ts'
import {
  createMemberFilter,
  formatOpenaiError,
  listAudio,
  listRemoteMedia,
  listRemoteMediaInParts,
  listServerSideTools,
  mediaOf,
  ORDINARY_TIERS,
  PICTURE_TOKENS_MAX,
} from './openai-family.ts'

export const openaiResponses: WireProtocol = {
  protocol: 'openai-responses',
  parseOperation,
  parseRequest,
  conversation: { turns: 'input' },
  forwardedHeaders: /^(openai-beta|originator|session[_-]id|conversation_id|x-codex-[a-z-]+)$/,
  rewriteBody: (body, { model }) => withModel(keepDocumented(body), model),
  withOutputLimit: (body, { tokens }) => ({ ...body, max_output_tokens: tokens }),
  rewritePath: (path) => path,
  authHeaders: (key) => ({ authorization: `Bearer ${key}` }),
  buildProbe: (model) => ({ path: '/v1/responses', body: { model, max_output_tokens: 16, store: false, input: 'Hi' } }),
  createMeter,
  formatError: formatOpenaiError,
}

function parseOperation(method: string, path: string): WireOperation | undefined {
  if (path === '/v1/responses' && method === 'GET') return { kind: 'upgrade', model: null }
  if (/^\/v1\/models(\/[^/]+)?$/.test(path) && method === 'GET') return { kind: 'models', model: null }
  if (method !== 'POST') return undefined
  if (path === '/v1/responses') return { kind: 'generate', model: null }
  if (path === '/v1/responses/compact') return { kind: 'generate', model: null, isCompaction: true }
  if (path === '/v1/responses/input_tokens') return { kind: 'count', model: null }
  return undefined
}

const keepDocumented = createMemberFilter([
  'context_management',
  'include',
  'input',
  'instructions',
  'max_output_tokens',
  'max_tool_calls',
  'text',
  'truncation',
])

function parseRequest({ isCompaction }: WireOperation, body: JsonObject): ParsedRequest {
  return {
    model: textOf(body.model),
    level: parseLevel(body),
    outputTokens: isCompaction ? null : limitOf(body.max_output_tokens, undefined),
    invalidCounts: listInvalidCounts([
      ['max_output_tokens', body.max_output_tokens, TOKENS],
      ['n', body.n, NO_ALTERNATIVES],
      ['best_of', body.best_of, NO_ALTERNATIVES],
    ]),
    serverSideTools: findServerSideTools(body),
    surcharges: listSurcharges(body),
    media: countMedia(listParts(body).map(objectOf), mediaOf, PICTURE_TOKENS_MAX),
  }
}

function parseLevel(body: JsonObject): ParsedRequest['level'] {
  const effort = textOf(objectOf(body.reasoning).effort)
  return effort === null ? null : { effort }
}

/**
 * Members that refer to something at the provider. Stored prompts may include tools. Background work does not report its
 * cost. A stored conversation is billed as if it had been sent, and may belong to another trial.
 */
const SERVER_SIDE_FIELDS = ['prompt', 'background', 'previous_response_id', 'conversation']

function findServerSideTools(body: JsonObject): string[] {
  const items = listOf(body.input).map(objectOf)
  // Input items can also contain tools: `additional_tools`, and results of a tool search.
  const tools = [...listOf(body.tools), ...items.filter(bringsTools).flatMap((item) => listOf(item.tools))]
  const fields = SERVER_SIDE_FIELDS.filter((name) => isFilled(body[name]))
  return [
    ...new Set([
      ...listServerSideTools(tools),
      ...fields,
      ...(items.some(isReference) ? ['item_reference'] : []),
      ...listRerouting(body),
      ...listRemoteMedia(items),
      ...listRemoteMediaInParts(listParts(body)),
    ]),
  ]
}

/** Returns true if an item names one that the provider stores. Such an item may leave out its type. */
const isReference = ({ type, id, role, content }: JsonObject): boolean =>
  type === 'item_reference' || (!isFilled(type) && isFilled(id) && !isFilled(role) && !isFilled(content))

/** Lists the parts of all messages and tool outputs. */
const listParts = (body: JsonObject): Json[] =>
  listOf(body.input)
    .map(objectOf)
    .flatMap(({ content, output }) => [...listOf(content), ...oneOrMore(output)])

const listSurcharges = (body: JsonObject): string[] => [
  ...listUnusual(body, { ...PRICED_MEMBERS, service_tier: ORDINARY_TIERS }),
  ...listAudio(listParts(body)),
]

const bringsTools = ({ type }: JsonObject): boolean => type === 'additional_tools' || type === 'tool_search_output'

const END_EVENTS = ['response.completed', 'response.incomplete', 'response.failed']

function createMeter(): UsageMeter {
  let model: string | null = null
  let serviceTier: string | null = null
  let last: JsonObject | undefined
  let isRefusal = false
  let textBytes = 0
  let error: AnswerError | null = null

  const take = (response: JsonObject): void => {
    model = textOf(response.model) ?? model
    serviceTier = textOf(response.service_tier) ?? serviceTier
  }
  const end = (response: JsonObject): void => {
    take(response)
    last = response
    error ??= classifyError(response.error) ?? (response.status === 'failed' ? 'other' : null)
    isRefusal ||= isRefused(response)
  }

  return {
    takeEvent: createEventHandler((event) => {
      const { type, response, delta } = event
      textBytes += byteLength(delta)
      error ??= classifyEventError(event)
      if (type === 'response.refusal.done') isRefusal = true
      else if (END_EVENTS.some((name) => name === type)) end(objectOf(response))
      else if (isObject(response)) take(response)
    }),
    takeBody: (json) => end(objectOf(json)),
    read: () => ({
      usage: last && isObject(last.usage) ? parseUsage(last.usage) : undefined,
      model,
      isRefusal,
      serviceTier,
      error,
      isComplete: last !== undefined && hasEnded(last),
      isTruncated: objectOf(last?.incomplete_details).reason === 'max_output_tokens',
      // The end of a stream repeats the text of its deltas.
      partial: { usage: undefined, textBytes: Math.max(textBytes, outputBytes(last)) },
    }),
  }
}

/** Counts the bytes of text, reasoning and tool input in a whole response. */
const outputBytes = (response: JsonObject | undefined): number =>
  listOf(response?.output)
    .map(objectOf)
    .flatMap(({ content, summary, arguments: called, input }) => [
      ...[...listOf(content), ...listOf(summary)].map(objectOf).flatMap(({ text, refusal }) => [text, refusal]),
      called,
      input,
    ])
    .reduce<number>((sum, text) => sum + byteLength(text), 0)

/** Classifies an `error` event. It has the fields of the error itself, or an object with them. */
const classifyEventError = (event: JsonObject): AnswerError | null =>
  event.type === 'error' ? classifyError(isFilled(event.error) ? event.error : event) : null

/** Returns true if a response has ended. A compacted conversation has no status. */
const hasEnded = ({ status, object, usage }: JsonObject): boolean =>
  status === 'completed' || status === 'incomplete' || (status === undefined && object !== undefined && isObject(usage))

const isRefused = ({ output, incomplete_details: details }: JsonObject): boolean =>
  objectOf(details).reason === 'content_filter' ||
  listOf(output)
    .flatMap((item: Json) => listOf(objectOf(item).content))
    .some((part) => objectOf(part).type === 'refusal')

function parseUsage(usage: JsonObject): Usage | undefined {
  const inputTokens = tokensOf(usage.input_tokens)
  const output = tokensOf(usage.output_tokens)
  if (inputTokens === undefined || output === undefined) return undefined

  const details = objectOf(usage.input_tokens_details)
  const reasoning = tokensOf(objectOf(usage.output_tokens_details).reasoning_tokens) ?? 0
  return {
    ...splitInput(inputTokens, tokensOf(details.cached_tokens) ?? 0, tokensOf(details.cache_write_tokens) ?? 0),
    cacheWrite1h: 0,
    output,
    reasoning: Math.min(reasoning, output),
  }
}
