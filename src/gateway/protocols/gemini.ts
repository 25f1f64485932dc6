import type { AnswerError, Asked, Json, JsonObject, Meter, Operation, Usage, Wire } from '../wire.ts'
import {
  ALTERNATIVES,
  byteLength,
  errorIn,
  isFilled,
  isObject,
  jsonBytes,
  limitOf,
  listInvalidCounts,
  listOf,
  mediaIn,
  objectOf,
  oneOrMore,
  REASONING_TOKENS,
  splitInput,
  TOKENS,
  takingEvents,
  textOf,
  timesOf,
  tokensOf,
  unusual,
} from './fields.ts'
import { field, fields, isHeard, mediaOf, partsIn, snakeCase } from './gemini-parts.ts'

export const gemini: Wire = {
  protocol: 'gemini',
  operation,
  read,
  rewritten,
  withOutputLimit,
  rewrittenPath,
  headers: (key) => ({ 'x-goog-api-key': key }),
  probe: (model) => ({
    path: `/v1beta/models/${encodeURIComponent(model)}:generateContent`,
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], generationConfig: { maxOutputTokens: 16 } },
  }),
  newMeter,
  problem,
}

const CALL = /^(\/v1(?:alpha|beta)?\/models\/)([^/:]+)(:(generateContent|streamGenerateContent|countTokens))$/

function operation(method: string, path: string): Operation | undefined {
  if (/^\/v1(alpha|beta)?\/models(\/[^/:]+)?$/.test(path) && method === 'GET') return { kind: 'models', model: null }
  const [, , name = '', , verb] = CALL.exec(path) ?? []
  const model = decoded(name)
  if (method !== 'POST' || !model) return undefined
  if (verb === 'countTokens') return { kind: 'count', model }
  return { kind: 'generate', model, isStream: verb === 'streamGenerateContent' }
}

function decoded(name: string): string | undefined {
  try {
    return decodeURIComponent(name)
  } catch {
    return undefined
  }
}

function rewrittenPath(path: string, { model }: { model: string }): string {
  const [, before, name = '', after] = CALL.exec(path) ?? []
  return before === undefined || decoded(name) === model ? path : `${before}${encodeURIComponent(model)}${after}`
}

/** The path has the model's name. A body that repeats it must not say another one. */
function rewritten(body: JsonObject, { model }: { model: string }): JsonObject {
  const name = `models/${model}`
  const isRight = [body, ...requestsIn(body)].every((each) => each.model === undefined || each.model === name)
  if (isRight) return body
  const entries = Object.entries(body).map(([key, value]): [string, Json] => {
    if (key === 'model') return [key, name]
    return isRequest(key) && isObject(value) && value.model !== undefined
      ? [key, { ...value, model: name }]
      : [key, value]
  })
  return Object.fromEntries(entries)
}

function withOutputLimit(body: JsonObject, { tokens }: { tokens: number }): JsonObject {
  const name = body.generation_config === undefined ? 'generationConfig' : 'generation_config'
  const { max_output_tokens: _snake, ...config } = objectOf(body[name])
  return { ...body, [name]: { ...config, maxOutputTokens: tokens } }
}

// Counting wraps the request that it counts.
const isRequest = (key: string): boolean => key === 'generateContentRequest' || key === 'generate_content_request'

const requestsIn = (body: JsonObject): JsonObject[] =>
  fields(body, 'generateContentRequest').filter((value) => isObject(value))

function read({ model, isStream = false }: Operation, body: JsonObject): Asked {
  const config = objectOf(field(body, 'generationConfig'))
  const thinking = objectOf(field(config, 'thinkingConfig'))
  return {
    ...{ model, isStream },
    level: levelOf(thinking),
    reasoningTokens: tokensOf(field(thinking, 'thinkingBudget')),
    outputTokens: outputTokensOf(config),
    alternatives: timesOf(field(config, 'candidateCount')),
    invalidCounts: invalidCountsIn(body),
    hosted: [...new Set([body, ...requestsIn(body)].flatMap(hostedOf))],
    surcharges: surchargesOf(body),
    media: mediaIn(partsIn(body), mediaOf),
  }
}

const outputTokensOf = (config: JsonObject): number | null =>
  limitOf(field(config, 'maxOutputTokens'), field(config, 'candidateCount'))

/** A number in two spellings is invalid: the provider may read either. */
function invalidCountsIn(body: JsonObject): string[] {
  const settings = field(body, 'generationConfig')
  if (isFilled(settings) && !isObject(settings)) return ['generationConfig']
  const config = objectOf(settings)
  const counts = [
    ['candidateCount', config, ALTERNATIVES],
    ['maxOutputTokens', config, TOKENS],
    ['thinkingBudget', objectOf(field(config, 'thinkingConfig')), REASONING_TOKENS],
  ] as const
  return counts.flatMap(([name, object, range]) => {
    const values = fields(object, name)
    const isWrong = values.length > 1 || listInvalidCounts([[name, values[0], range]]).length > 0
    return isWrong ? [object[name] === undefined ? snakeCase(name) : name] : []
  })
}

function surchargesOf(body: JsonObject): string[] {
  const configs = fields(body, 'generationConfig').map(objectOf)
  const tiers = unusual(body, { serviceTier: ORDINARY_TIERS, service_tier: ORDINARY_TIERS })
  const spoken = configs
    .flatMap((config) => fields(config, 'responseModalities').flatMap(listOf))
    .some((kind) => String(kind).toLowerCase() !== 'text')
  return [...tiers, ...(spoken ? ['responseModalities'] : []), ...(partsIn(body).some(isHeard) ? ['sound'] : [])]
}

const ORDINARY_TIERS = ['standard', 'unspecified', 'service_tier_unspecified', 'service_tier_standard']

function levelOf(config: JsonObject): Asked['level'] {
  const effort = textOf(field(config, 'thinkingLevel'))
  if (effort !== null) return { effort: effort.toLowerCase() }
  const budgetTokens = field(config, 'thinkingBudget')
  if (budgetTokens === 0) return { off: true }
  return typeof budgetTokens === 'number' && Number.isInteger(budgetTokens) ? { budgetTokens } : null
}

// Functions run where the client is. Whatever else a tool may be is the provider's own.
const OWN_TOOLS = ['functionDeclarations', 'function_declarations']

function hostedOf(body: JsonObject): string[] {
  const tools = oneOrMore(body.tools)
    .flatMap((tool) => Object.keys(objectOf(tool)))
    .filter((name) => !OWN_TOOLS.includes(name))
  const files = partsIn(body).some((part) => fields(part, 'fileData').length > 0) ? ['fileData'] : []
  // What was cached has tools of its own.
  const cached = textOf(field(body, 'cachedContent')) === null ? [] : ['cachedContent']
  return [...tools, ...files, ...cached]
}

const REFUSALS = ['SAFETY', 'PROHIBITED_CONTENT', 'BLOCKLIST', 'SPII', 'IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT']

function newMeter(): Meter {
  let model: string | null = null
  let usage: JsonObject | undefined
  let isComplete = false
  let isRefusal = false
  let isTruncated = false
  let textBytes = 0
  let error: AnswerError | null = null

  const take = (chunk: JsonObject): void => {
    error ??= errorIn(chunk.error)
    model = textOf(chunk.modelVersion) ?? model
    if (isObject(chunk.usageMetadata)) usage = chunk.usageMetadata
    const isBlocked = textOf(objectOf(chunk.promptFeedback).blockReason) !== null
    const candidates = oneOrMore(chunk.candidates).map(objectOf)
    const reasons = candidates.flatMap(({ finishReason }) => textOf(finishReason) ?? [])
    textBytes += candidates.reduce((sum, { content }) => sum + partBytes(objectOf(content)), 0)
    isTruncated ||= reasons.includes('MAX_TOKENS')
    if (isBlocked || reasons.length > 0) isComplete = true
    if (isBlocked || reasons.some((reason) => REFUSALS.includes(reason))) isRefusal = true
  }

  return {
    event: takingEvents(take),
    // Without server-sent events a stream is one list of chunks.
    body: (json) => {
      for (const chunk of oneOrMore(json)) take(objectOf(chunk))
    },
    // Every chunk counts along: only at the end is it the whole.
    read: () => ({
      usage: isComplete && usage ? usageOf(usage) : undefined,
      ...{ model, isComplete, isRefusal, isTruncated, error },
      partial: { usage: usage && usageOf(usage), textBytes },
      serviceTier: textOf(usage?.serviceTier)?.toLowerCase() ?? null,
    }),
  }
}

const partBytes = ({ parts }: JsonObject): number =>
  oneOrMore(parts)
    .map(objectOf)
    .reduce((sum, { text, functionCall }) => sum + byteLength(text) + jsonBytes(objectOf(functionCall).args), 0)

/** What was thought is billed as output. What a tool of the provider brought in is billed as input. */
function usageOf(usage: JsonObject): Usage | undefined {
  const prompt = tokensOf(usage.promptTokenCount)
  if (prompt === undefined) return undefined
  const reasoning = tokensOf(usage.thoughtsTokenCount) ?? 0
  const brought = tokensOf(usage.toolUsePromptTokenCount) ?? 0
  return {
    ...splitInput(prompt + brought, tokensOf(usage.cachedContentTokenCount) ?? 0, 0),
    ...{ cacheWrite1h: 0, output: (tokensOf(usage.candidatesTokenCount) ?? 0) + reasoning, reasoning },
  }
}

const STATUSES: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

function problem(status: number, code: string, message: string): JsonObject {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: code }]
  const name = STATUSES[status] ?? (status < 500 ? 'FAILED_PRECONDITION' : 'INTERNAL')
  return { error: { code: status, message, status: name, details } }
}
