import { isObject, type Json, type JsonObject } from '../../harnesses/json.ts'
import type {
  AnswerError,
  MediaKind,
  ParsedRequest,
  Usage,
  UsageMeter,
  WireOperation,
  WireProtocol,
} from '../wire-protocol.ts'
import {
  ALTERNATIVES,
  alternativesOf,
  byteLength,
  classifyError,
  countMedia,
  createEventHandler,
  isFilled,
  jsonBytes,
  keepMembers,
  limitOf,
  listInvalidCounts,
  listOf,
  listRerouting,
  listUnusual,
  objectOf,
  oneOrMore,
  REASONING_TOKENS,
  splitInput,
  TOKENS,
  textOf,
  tokensOf,
} from './fields.ts'

export const gemini: WireProtocol = {
  protocol: 'gemini',
  parseOperation,
  parseRequest,
  conversation: { turns: 'contents' },
  forwardedHeaders: null,
  rewriteBody: (body, { model }) => withModelName(keepDocumented(body), model),
  withOutputLimit,
  rewritePath,
  authHeaders: (key) => ({ 'x-goog-api-key': key }),
  buildProbe: (model) => ({
    path: `/v1beta/models/${encodeURIComponent(model)}:generateContent`,
    body: { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }], generationConfig: { maxOutputTokens: 16 } },
  }),
  createMeter,
  formatError,
}

/** Groups: the part before the model, the model, the part after it, and the verb. */
const CALL_PATH = /^(\/v1(?:alpha|beta)?\/models\/)([^/:]+)(:(generateContent|streamGenerateContent|countTokens))$/

function parseOperation(method: string, path: string): WireOperation | undefined {
  if (/^\/v1(alpha|beta)?\/models(\/[^/:]+)?$/.test(path) && method === 'GET') return { kind: 'models', model: null }
  const [, , name = '', , verb] = CALL_PATH.exec(path) ?? []
  const model = decodeName(name)
  if (method !== 'POST' || !model) return undefined
  if (verb === 'countTokens') return { kind: 'count', model }
  return { kind: 'generate', model }
}

function decodeName(name: string): string | undefined {
  try {
    return decodeURIComponent(name)
  } catch {
    return undefined
  }
}

function rewritePath(path: string, { model }: { model: string }): string {
  const [, before, name = '', after] = CALL_PATH.exec(path) ?? []
  return before === undefined || decodeName(name) === model ? path : `${before}${encodeURIComponent(model)}${after}`
}

const DOCUMENTED_MEMBERS: ReadonlySet<string> = new Set(
  [
    'contents',
    'generateContentRequest',
    'generationConfig',
    'model',
    'safetySettings',
    'serviceTier',
    'systemInstruction',
    'toolConfig',
    'tools',
  ].flatMap((name) => [name, snakeCase(name)]),
)

/**
 * Keeps the documented members, also of the request inside a `countTokens` call. Returns the same object if nothing is
 * removed.
 */
function keepDocumented(body: JsonObject): JsonObject {
  const kept = keepMembers(body, DOCUMENTED_MEMBERS)
  const wrapped = Object.entries(kept).flatMap(([key, value]): [string, JsonObject][] =>
    isWrappedRequest(key) && isObject(value) ? [[key, keepMembers(value, DOCUMENTED_MEMBERS)]] : [],
  )
  const isUnchanged = wrapped.every(([key, value]) => kept[key] === value)
  return isUnchanged ? kept : { ...kept, ...Object.fromEntries(wrapped) }
}

/** Corrects the model in the body, which may repeat the one in the path. */
function withModelName(body: JsonObject, model: string): JsonObject {
  const name = `models/${model}`
  const isRight = [body, ...listWrappedRequests(body)].every((each) => each.model === undefined || each.model === name)
  if (isRight) return body
  const entries = Object.entries(body).map(([key, value]): [string, Json] => {
    if (key === 'model') return [key, name]
    return isWrappedRequest(key) && isObject(value) && value.model !== undefined
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

/** Returns true if a member holds the request that a `countTokens` call counts. */
const isWrappedRequest = (key: string): boolean =>
  key === 'generateContentRequest' || key === 'generate_content_request'

const listWrappedRequests = (body: JsonObject): JsonObject[] =>
  fields(body, 'generateContentRequest').filter((value) => isObject(value))

function parseRequest({ model }: WireOperation, body: JsonObject): ParsedRequest {
  const config = objectOf(field(body, 'generationConfig'))
  const thinking = objectOf(field(config, 'thinkingConfig'))
  return {
    model,
    level: parseLevel(thinking),
    reasoningTokens: tokensOf(field(thinking, 'thinkingBudget')),
    outputTokens: parseOutputTokens(config),
    alternatives: alternativesOf(field(config, 'candidateCount')),
    invalidCounts: listInvalidCountsIn(body),
    serverSideTools: [...new Set([body, ...listWrappedRequests(body)].flatMap(findServerSideTools))],
    surcharges: listSurcharges(body),
    media: countMedia(listParts(body), mediaOf, PICTURE_TOKENS_MAX),
  }
}

const parseOutputTokens = (config: JsonObject): number | null =>
  limitOf(field(config, 'maxOutputTokens'), field(config, 'candidateCount'))

/**
 * Lists numbers that are not integers in their range, and settings in two spellings, of which the provider may read
 * either.
 */
function listInvalidCountsIn(body: JsonObject): string[] {
  const settings = field(body, 'generationConfig')
  if (isFilled(settings) && !isObject(settings)) return ['generationConfig']
  const config = objectOf(settings)
  const thinking = objectOf(field(config, 'thinkingConfig'))
  if (fields(config, 'thinkingConfig').length > 1) return ['thinkingConfig']
  if (fields(thinking, 'thinkingLevel').length > 1) return ['thinkingLevel']
  const counts = [
    ['candidateCount', config, ALTERNATIVES],
    ['maxOutputTokens', config, TOKENS],
    ['thinkingBudget', thinking, REASONING_TOKENS],
  ] as const
  return counts.flatMap(([name, object, range]) => {
    const values = fields(object, name)
    const isWrong = values.length > 1 || listInvalidCounts([[name, values[0], range]]).length > 0
    return isWrong ? [object[name] === undefined ? snakeCase(name) : name] : []
  })
}

function listSurcharges(body: JsonObject): string[] {
  const configs = fields(body, 'generationConfig').map(objectOf)
  const tiers = listUnusual(body, { serviceTier: ORDINARY_TIERS, service_tier: ORDINARY_TIERS })
  const asksForOtherModalities = configs
    .flatMap((config) => fields(config, 'responseModalities').flatMap(listOf))
    .some((kind) => String(kind).toLowerCase() !== 'text')
  return [
    ...tiers,
    ...(asksForOtherModalities ? ['responseModalities'] : []),
    ...(listParts(body).some(isAudioOrVideo) ? ['audio or video'] : []),
  ]
}

const ORDINARY_TIERS = ['standard', 'unspecified', 'service_tier_unspecified', 'service_tier_standard']

function parseLevel(config: JsonObject): ParsedRequest['level'] {
  const effort = textOf(field(config, 'thinkingLevel'))
  if (effort !== null) return { effort: effort.toLowerCase() }
  const budgetTokens = field(config, 'thinkingBudget')
  if (budgetTokens === 0) return { off: true }
  return typeof budgetTokens === 'number' && Number.isInteger(budgetTokens) ? { budgetTokens } : null
}

/** Returns the values of a field in both spellings, which are the same to the provider. */
const fields = (object: JsonObject, name: string): Json[] =>
  [object[name], object[snakeCase(name)]].filter((value) => value !== undefined)

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

const field = (object: JsonObject, name: string): Json | undefined => fields(object, name)[0]

/** Maximum tokens of a picture, whatever its resolution. */
const PICTURE_TOKENS_MAX = 5_000

function mediaOf(part: JsonObject): MediaKind | undefined {
  const [data] = fields(part, 'inlineData').map(objectOf)
  if (!data) return undefined
  return /^\s*image\//i.test(String(field(data, 'mimeType'))) ? 'pictures' : 'documents'
}

/** Returns true if a part is audio or video, which has another price than text. */
const isAudioOrVideo = (part: JsonObject): boolean =>
  fields(part, 'inlineData').some((data) =>
    fields(objectOf(data), 'mimeType').some((type) => /^\s*(audio|video)\//i.test(String(type))),
  )

/** Lists the parts of all contents, of the system instruction, and of function responses. */
function listParts(body: JsonObject): JsonObject[] {
  const contents = [...oneOrMore(body.contents), ...fields(body, 'systemInstruction').flatMap(oneOrMore)]
  const parts = contents.flatMap((content) => oneOrMore(objectOf(content).parts)).map(objectOf)
  const responseParts = parts
    .flatMap((part) => fields(part, 'functionResponse'))
    .flatMap((response) => oneOrMore(objectOf(response).parts))
  return [...parts, ...responseParts.map(objectOf)]
}

/** Tools that run in the client. All others are server-side tools. */
const CLIENT_TOOLS = ['functionDeclarations', 'function_declarations']

function findServerSideTools(body: JsonObject): string[] {
  const tools = oneOrMore(body.tools)
    .flatMap((tool) => Object.keys(objectOf(tool)))
    .filter((name) => !CLIENT_TOOLS.includes(name))
  const files = listParts(body).some((part) => fields(part, 'fileData').length > 0) ? ['fileData'] : []
  // Cached content may include tools.
  const cached = textOf(field(body, 'cachedContent')) === null ? [] : ['cachedContent']
  const configs = fields(body, 'generationConfig').map(objectOf)
  return [...tools, ...files, ...cached, ...[body, ...configs].flatMap(listRerouting)]
}

const REFUSAL_REASONS = [
  'SAFETY',
  'PROHIBITED_CONTENT',
  'BLOCKLIST',
  'SPII',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
]

function createMeter(): UsageMeter {
  let model: string | null = null
  let usage: JsonObject | undefined
  let isComplete = false
  let isRefusal = false
  let isTruncated = false
  let textBytes = 0
  let error: AnswerError | null = null

  const take = (chunk: JsonObject): void => {
    error ??= classifyError(chunk.error)
    model = textOf(chunk.modelVersion) ?? model
    if (isObject(chunk.usageMetadata)) usage = chunk.usageMetadata
    const isBlocked = textOf(objectOf(chunk.promptFeedback).blockReason) !== null
    const candidates = oneOrMore(chunk.candidates).map(objectOf)
    const reasons = candidates.flatMap(({ finishReason }) => textOf(finishReason) ?? [])
    textBytes += candidates.reduce((sum, { content }) => sum + partBytes(objectOf(content)), 0)
    isTruncated ||= reasons.includes('MAX_TOKENS')
    if (isBlocked || reasons.length > 0) isComplete = true
    if (isBlocked || reasons.some((reason) => REFUSAL_REASONS.includes(reason))) isRefusal = true
  }

  return {
    takeEvent: createEventHandler(take),
    // A stream without server-sent events is a list of chunks.
    takeBody: (json) => {
      for (const chunk of oneOrMore(json)) take(objectOf(chunk))
    },
    // Every chunk repeats the usage so far. Only the last one is final.
    read: () => ({
      usage: isComplete && usage ? parseUsage(usage) : undefined,
      model,
      isComplete,
      isRefusal,
      isTruncated,
      error,
      partial: { usage: usage && parseUsage(usage), textBytes },
      serviceTier: textOf(usage?.serviceTier)?.toLowerCase() ?? null,
    }),
  }
}

const partBytes = ({ parts }: JsonObject): number =>
  oneOrMore(parts)
    .map(objectOf)
    .reduce((sum, { text, functionCall }) => sum + byteLength(text) + jsonBytes(objectOf(functionCall).args), 0)

/** Parses the usage. Thoughts are billed as output, and the input of server-side tools as input. */
function parseUsage(usage: JsonObject): Usage | undefined {
  const prompt = tokensOf(usage.promptTokenCount)
  if (prompt === undefined) return undefined
  const reasoning = tokensOf(usage.thoughtsTokenCount) ?? 0
  const toolInput = tokensOf(usage.toolUsePromptTokenCount) ?? 0
  return {
    ...splitInput(prompt + toolInput, tokensOf(usage.cachedContentTokenCount) ?? 0, 0),
    cacheWrite1h: 0,
    output: (tokensOf(usage.candidatesTokenCount) ?? 0) + reasoning,
    reasoning,
  }
}

const STATUS_NAMES: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

function formatError(status: number, code: string, message: string): JsonObject {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: code }]
  const name = STATUS_NAMES[status] ?? (status < 500 ? 'FAILED_PRECONDITION' : 'INTERNAL')
  return { error: { code: status, message, status: name, details } }
}
