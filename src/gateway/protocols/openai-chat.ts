import { isObject, type Json, type JsonObject } from '../../harnesses/json.ts'
import type { AnswerError, ParsedRequest, Usage, UsageMeter, WireOperation, WireProtocol } from '../wire-protocol.ts'
import {
  ALTERNATIVES,
  alternativesOf,
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
  PRICED_MEMBERS,
  REASONING_TOKENS,
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
  listRemoteMediaInParts,
  listServerSideTools,
  mediaOf,
  ORDINARY_TIERS,
  PICTURE_TOKENS_MAX,
} from './openai-family.ts'

export const openaiChat: WireProtocol = {
  protocol: 'openai-chat',
  parseOperation,
  parseRequest,
  conversation: { turns: 'messages' },
  // Keeps the calls of one conversation on the server that caches its prompt.
  forwardedHeaders: /^x-session-affinity$/,
  rewriteBody: (body, { model }) => withUsage(withModel(keepDocumented(body), model)),
  withOutputLimit,
  rewritePath: (path) => path,
  authHeaders: (key) => ({ authorization: `Bearer ${key}` }),
  buildProbe: (model) => ({
    path: '/v1/chat/completions',
    body: { model, max_completion_tokens: 16, messages: [{ role: 'user', content: 'Hi' }] },
  }),
  createMeter,
  formatError: formatOpenaiError,
}

function parseOperation(method: string, path: string): WireOperation | undefined {
  if (/^\/v1\/models(\/[^/]+)?$/.test(path) && method === 'GET') return { kind: 'models', model: null }
  return path === '/v1/chat/completions' && method === 'POST' ? { kind: 'generate', model: null } : undefined
}

/** Keeps the members that OpenAI documents, and those of compatible providers for reasoning and sampling. */
const keepDocumented = createMemberFilter([
  'cache_control',
  'chat_template_kwargs',
  'enable_thinking',
  'frequency_penalty',
  'function_call',
  'functions',
  'include_reasoning',
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'messages',
  'min_p',
  'modalities',
  'n',
  'presence_penalty',
  'reasoning_effort',
  'reasoning_format',
  'reasoning_split',
  'repetition_penalty',
  'response_format',
  'seed',
  'stop',
  'thinking',
  'thinking_budget',
  'tool_stream',
  'top_k',
  'verbosity',
])

/** Turns on usage reporting, which streams omit by default. */
function withUsage(body: JsonObject): JsonObject {
  if (!isFilled(body.stream)) return body
  const options = objectOf(body.stream_options)
  return options.include_usage === true ? body : { ...body, stream_options: { ...options, include_usage: true } }
}

/**
 * Sets the output limit, under the name that the request already uses. Otherwise `max_completion_tokens` for OpenAI, which
 * refuses the older `max_tokens`, and `max_tokens` for compatible providers, which all support it. A separate budget for
 * reasoning is part of the tokens that may be spent, but not of this limit.
 */
function withOutputLimit(body: JsonObject, { tokens, provider }: { tokens: number; provider: string }): JsonObject {
  const limit = Math.max(1, tokens - (tokensOf(body.thinking_budget) ?? 0))
  const present = ['max_completion_tokens', 'max_tokens'].filter((name) => isFilled(body[name]))
  const names = present.length > 0 ? present : [provider === 'openai' ? 'max_completion_tokens' : 'max_tokens']
  return { ...body, ...Object.fromEntries(names.map((name) => [name, limit])) }
}

function parseRequest(_operation: WireOperation, body: JsonObject): ParsedRequest {
  return {
    model: textOf(body.model),
    level: parseLevel(body),
    outputTokens: parseOutputTokens(body),
    alternatives: alternativesOf(body.n),
    reasoningTokens: parseReasoningTokens(body),
    reasoningTokensAbove: tokensOf(body.thinking_budget),
    invalidCounts: listInvalidCounts([
      ['n', body.n, ALTERNATIVES],
      ['best_of', body.best_of, NO_ALTERNATIVES],
      ['max_tokens', body.max_tokens, TOKENS],
      ['max_completion_tokens', body.max_completion_tokens, TOKENS],
      ['reasoning.max_tokens', objectOf(body.reasoning).max_tokens, REASONING_TOKENS],
      ['thinking.budget_tokens', objectOf(body.thinking).budget_tokens, REASONING_TOKENS],
      ['thinking_budget', body.thinking_budget, REASONING_TOKENS],
    ]),
    serverSideTools: findServerSideTools(body),
    surcharges: listSurcharges(body),
    media: countMedia(listParts(body).map(objectOf), mediaOf, PICTURE_TOKENS_MAX),
  }
}

/** Returns the higher limit if both are set: providers differ in which one counts. */
function parseOutputTokens({ max_completion_tokens: one, max_tokens: other, n }: JsonObject): number | null {
  const limits = [one, other].filter(isFilled).map((limit) => limitOf(limit, n))
  return limits.length === 0 || limits.includes(null) ? null : Math.max(...limits.map(Number))
}

/** Reads the reasoning level from the fields that compatible providers use for it. */
function parseLevel(body: JsonObject): ParsedRequest['level'] {
  const reasoning = objectOf(body.reasoning)
  const thinking = objectOf(body.thinking)
  const template = objectOf(body.chat_template_kwargs)
  const switches = [body.reasoning, reasoning.enabled, body.enable_thinking, template.enable_thinking]
  if (thinking.type === 'disabled' || switches.includes(false)) return { off: true }

  const effort = textOf(body.reasoning_effort) ?? textOf(reasoning.effort)
  if (effort !== null) return { effort }
  const budgetTokens = parseReasoningTokens(body)
  return budgetTokens === undefined ? null : { budgetTokens }
}

/** Returns the largest budget if several are set: providers differ in which one counts. */
function parseReasoningTokens(body: JsonObject): number | undefined {
  const budgets = [objectOf(body.reasoning).max_tokens, objectOf(body.thinking).budget_tokens, body.thinking_budget]
    .map(tokensOf)
    .filter((tokens) => tokens !== undefined)
  return budgets.length === 0 ? undefined : Math.max(...budgets)
}

/** Members of compatible providers for server-side search and background work. */
const SERVER_SIDE_FIELDS = ['web_search_options', 'search_parameters', 'enable_search', 'background']

const listParts = (body: JsonObject): Json[] =>
  listOf(body.messages).flatMap((message) => listOf(objectOf(message).content))

function findServerSideTools(body: JsonObject): string[] {
  const isOff = objectOf(body.search_parameters).mode === 'off'
  const fields = SERVER_SIDE_FIELDS.filter((name) => isFilled(body[name]) && !(isOff && name === 'search_parameters'))
  return [
    ...new Set([
      ...listServerSideTools(listOf(body.tools)),
      ...fields,
      ...listRerouting(body),
      ...listRemoteMediaInParts(listParts(body)),
    ]),
  ]
}

const ORDINARY_VALUES = { ...PRICED_MEMBERS, service_tier: ORDINARY_TIERS, max_output_tokens: [] }

function listSurcharges(body: JsonObject): string[] {
  const modalities = listOf(body.modalities).some((kind) => kind !== 'text') ? ['modalities'] : []
  return [...listUnusual(body, ORDINARY_VALUES), ...modalities, ...listAudio(listParts(body))]
}

function createMeter(): UsageMeter {
  let model: string | null = null
  let usage: JsonObject | undefined
  let serviceTier: string | null = null
  let isComplete = false
  let isRefusal = false
  let isTruncated = false
  let textBytes = 0
  let error: AnswerError | null = null

  const take = (chunk: JsonObject): void => {
    const choices = listOf(chunk.choices).map(objectOf)
    for (const each of [chunk, ...choices]) error ??= classifyError(each.error)
    if (choices.some((choice) => choice.finish_reason === 'error')) error ??= 'other'
    model = textOf(chunk.model) ?? model
    serviceTier = textOf(chunk.service_tier) ?? serviceTier
    usage = [chunk, ...choices].map((each) => each.usage).findLast(isObject) ?? usage
    isComplete ||= choices.some((choice) => textOf(choice.finish_reason) !== null)
    isRefusal ||= choices.some(isRefused)
    isTruncated ||= choices.some((choice) => choice.finish_reason === 'length')
    textBytes += choices.reduce((sum, choice) => sum + producedBytes(choice), 0)
  }

  const takeEvent = createEventHandler(take)
  return {
    takeEvent: (data) => {
      if (data !== '[DONE]') return takeEvent(data)
      isComplete = true
      return true
    },
    takeBody: (json) => take(objectOf(json)),
    // Some providers repeat the usage so far in every chunk. Only the last one is final.
    read: () => ({
      usage: isComplete && usage ? parseUsage(usage) : undefined,
      model,
      isComplete,
      isRefusal,
      isTruncated,
      serviceTier,
      error,
      partial: { usage: usage && parseUsage(usage), textBytes },
    }),
  }
}

/** Counts the bytes that a choice has produced: in the piece of a stream, or in a whole message. */
const producedBytes = ({ delta, message }: JsonObject): number =>
  messageBytes(objectOf(delta)) + messageBytes(objectOf(message))

/** Counts text, reasoning under the names that providers use, and tool input. */
const messageBytes = ({ content, refusal, reasoning, reasoning_content, tool_calls }: JsonObject): number =>
  [
    content,
    refusal,
    reasoning,
    reasoning_content,
    ...listOf(content).map((part) => objectOf(part).text),
  ].reduce<number>((sum, text) => sum + byteLength(text), 0) +
  listOf(tool_calls)
    .map((call) => objectOf(objectOf(call).function))
    .reduce((sum, { name, arguments: input }) => sum + byteLength(name) + byteLength(input), 0)

const isRefused = ({ finish_reason, message, delta }: JsonObject): boolean =>
  finish_reason === 'content_filter' || textOf({ ...objectOf(message), ...objectOf(delta) }.refusal) !== null

function parseUsage(usage: JsonObject): Usage | undefined {
  const inputTokens = tokensOf(usage.prompt_tokens)
  const completion = tokensOf(usage.completion_tokens)
  if (inputTokens === undefined || completion === undefined) return undefined

  const details = objectOf(usage.prompt_tokens_details)
  const read = details.cached_tokens ?? usage.cached_tokens ?? usage.prompt_cache_hit_tokens
  const written = details.cache_write_tokens ?? details.cache_creation_input_tokens
  const reasoning = tokensOf(objectOf(usage.completion_tokens_details).reasoning_tokens) ?? 0
  // Most providers count reasoning as part of the completion. The total reveals those that do not.
  const isReasoningSeparate = reasoning > 0 && usage.total_tokens === inputTokens + completion + reasoning
  const output = isReasoningSeparate ? completion + reasoning : completion
  return {
    ...splitInput(inputTokens, tokensOf(read) ?? 0, tokensOf(written) ?? 0),
    cacheWrite1h: 0,
    output,
    reasoning: Math.min(reasoning, output),
  }
}
