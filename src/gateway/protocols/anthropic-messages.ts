import { isObject, type JsonObject } from '../../harnesses/json.ts'
import {
  type AnswerError,
  addUsage,
  type MediaKind,
  type ParsedRequest,
  type Usage,
  type UsageMeter,
  type WireOperation,
  type WireProtocol,
} from '../wire-protocol.ts'
import {
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
  NO_ALTERNATIVES,
  objectOf,
  PRICED_MEMBERS,
  REASONING_TOKENS,
  TOKENS,
  textOf,
  tokensOf,
  withModel,
} from './fields.ts'

export const anthropicMessages: WireProtocol = {
  protocol: 'anthropic-messages',
  parseOperation,
  parseRequest,
  conversation: { turns: 'messages', instructions: 'system' },
  forwardedHeaders: /^(anthropic-(version|beta|dangerous-direct-browser-access)|x-app)$/,
  filterHeader: (name, value) => (name === 'anthropic-beta' ? keepKnownBetas(value) : value),
  rewriteBody: (body, { model }) => withModel(withPlainMetadata(keepMembers(body, DOCUMENTED_MEMBERS)), model),
  withOutputLimit: (body, { tokens }) => ({ ...body, max_tokens: tokens }),
  rewritePath: (path) => path,
  authHeaders: (key) => ({ 'x-api-key': key }),
  buildProbe: (model) => ({
    path: '/v1/messages',
    body: { model, max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] },
    headers: { 'anthropic-version': '2023-06-01' },
  }),
  createMeter,
  formatError: (status, code, message) => ({ type: 'error', error: { type: errorType(status), message, code } }),
}

function parseOperation(method: string, path: string): WireOperation | undefined {
  if (path === '/api/hello' && method !== 'POST') return { kind: 'hello', model: null }
  if (/^\/v1\/models(\/[^/]+)?$/.test(path) && method === 'GET') return { kind: 'models', model: null }
  if (method !== 'POST') return undefined
  if (path === '/v1/messages') return { kind: 'generate', model: null }
  if (path === '/v1/messages/count_tokens') return { kind: 'count', model: null }
  return undefined
}

/**
 * Betas that agent programs send. Others are dropped, because they may change the price (a longer context, fast mode),
 * choose another payer or model, or reach files, containers and servers of the provider.
 */
const BETAS = new Set([
  'adaptive-thinking',
  'advanced-tool-use',
  'cache-diagnosis',
  'claude-code',
  'compact',
  'computer-use',
  'context-management',
  'effort',
  'extended-cache-ttl',
  'fine-grained-tool-streaming',
  'interleaved-thinking',
  'mid-conversation-system',
  'model-context-window-exceeded',
  'output-128k',
  'pdfs',
  'prompt-caching',
  'prompt-caching-scope',
  'redact-thinking',
  'structured-outputs',
  'thinking-token-count',
  'token-counting',
  'token-efficient-tools',
  'tool-examples',
  'tool-search-tool',
])
/** Name of a beta and the date at its end. */
const DATED_BETA = /^([a-z0-9-]{1,60}?)-\d{4}-?\d{2}-?\d{2}$/

const keepKnownBetas = (value: string): string =>
  value
    .split(',')
    .map((beta) => beta.trim())
    .filter((beta) => BETAS.has(DATED_BETA.exec(beta)?.[1] ?? ''))
    .join(',')

/**
 * Documented members of a request. Members that can select a feature with a separate price, or another model, are
 * refused if they do.
 */
const DOCUMENTED_MEMBERS: ReadonlySet<string> = new Set([
  'cache_control',
  'context_management',
  'inference_geo',
  'max_tokens',
  'messages',
  'metadata',
  'model',
  'output_config',
  'output_format',
  'service_tier',
  'speed',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
])

/** Reduces the metadata to the documented `user_id`: proxies choose a model by other entries. */
function withPlainMetadata(body: JsonObject): JsonObject {
  if (body.metadata === undefined) return body
  const { metadata, ...others } = body
  const { user_id: userId, ...unknown } = objectOf(metadata)
  if (typeof userId !== 'string') return others
  return Object.keys(unknown).length === 0 ? body : { ...body, metadata: { user_id: userId } }
}

function parseRequest(_operation: WireOperation, body: JsonObject): ParsedRequest {
  // The provider may compact the conversation before it answers. It bills that pass too, like another answer.
  const passes = asksForCompaction(body) ? 2 : 1
  return {
    model: textOf(body.model),
    level: parseLevel(body),
    outputTokens: limitOf(body.max_tokens, passes),
    alternatives: passes,
    reasoningTokens: tokensOf(objectOf(body.thinking).budget_tokens),
    inputPasses: passes,
    invalidCounts: listInvalidCounts([
      ['max_tokens', body.max_tokens, TOKENS],
      ['thinking.budget_tokens', objectOf(body.thinking).budget_tokens, REASONING_TOKENS],
      ['n', body.n, NO_ALTERNATIVES],
      ['best_of', body.best_of, NO_ALTERNATIVES],
    ]),
    serverSideTools: findServerSideTools(body),
    surcharges: listUnusual(body, ORDINARY_VALUES),
    media: countMedia(listBlocks(body), mediaOf, PICTURE_TOKENS_MAX),
  }
}

/** Values that do not change the price. Other service tiers, fast mode and regions have other prices. */
const ORDINARY_VALUES = {
  ...PRICED_MEMBERS,
  service_tier: ['auto', 'standard', 'standard_only'],
  inference_geo: ['global'],
}

const asksForCompaction = (body: JsonObject): boolean =>
  listOf(objectOf(body.context_management).edits).some((edit) => /^compact/.test(textOf(objectOf(edit).type) ?? ''))

function parseLevel(body: JsonObject): ParsedRequest['level'] {
  const thinking = objectOf(body.thinking)
  if (thinking.type === 'disabled') return { off: true }
  const effort = textOf(objectOf(body.output_config).effort)
  if (effort !== null) return { effort }
  const budgetTokens = tokensOf(thinking.budget_tokens)
  return budgetTokens === undefined ? null : { budgetTokens }
}

/**
 * Tools that run in the client, or that search only the tools of the request. Unknown tools count as server-side
 * tools.
 */
const CLIENT_TOOLS = /^(custom|bash_\d+|text_editor_\d+|computer_\d+|memory_\d+|tool_search_tool_(regex|bm25)(_\d+)?)$/

/** Members with remote tool servers and containers of the provider. */
const SERVER_SIDE_FIELDS = ['mcp_servers', 'container']

function findServerSideTools(body: JsonObject): string[] {
  const tools = listOf(body.tools)
    .map((tool) => objectOf(tool).type ?? 'custom')
    .filter((type) => typeof type !== 'string' || !CLIENT_TOOLS.test(type))
    .map(String)
  const fields = SERVER_SIDE_FIELDS.filter((name) => isFilled(body[name]))
  const addresses = listBlocks(body).flatMap(listRemoteMedia)
  return [...new Set([...tools, ...fields, ...listRerouting(body), ...addresses])]
}

/**
 * Lists the content blocks of the system prompt and of all messages, including those inside tool results and
 * documents.
 */
function listBlocks(body: JsonObject): JsonObject[] {
  const blocks: JsonObject[] = []
  // Iterative, because untrusted input may be nested deeply enough to overflow the stack.
  const messages = listOf(body.messages).flatMap((message) => listOf(objectOf(message).content))
  const pending = [...listOf(body.system), ...messages]
  for (let block = pending.pop(); block !== undefined; block = pending.pop()) {
    const { content, source } = objectOf(block)
    blocks.push(objectOf(block))
    for (const each of [...listOf(content), ...listOf(objectOf(source).content)]) pending.push(each)
  }
  return blocks
}

/** Lists media that the provider would fetch or already stores, and files for its containers. */
function listRemoteMedia({ type, source, file_id: fileId }: JsonObject): string[] {
  const { type: sourceType, file_id: sourceFileId } = objectOf(source)
  if (type === 'container_upload') return ['container_upload']
  if (isFilled(fileId) || isFilled(sourceFileId)) return ['file_id']
  return sourceType === 'url' || sourceType === 'file' ? [`${textOf(type) ?? 'content'} by URL`] : []
}

/** Maximum tokens of a picture, which the provider scales down. */
const PICTURE_TOKENS_MAX = 5_000

function mediaOf({ type, source }: JsonObject): MediaKind | undefined {
  if (objectOf(source).type !== 'base64') return undefined
  return type === 'document' ? 'documents' : 'pictures'
}

function createMeter(): UsageMeter {
  let firstUsage: JsonObject = {}
  let lastUsage: JsonObject | undefined
  let model: string | null = null
  let stop: string | null = null
  let isComplete = false
  let textBytes = 0
  let error: AnswerError | null = null

  const take: Record<string, (event: JsonObject) => void> = {
    message_start({ message }) {
      firstUsage = objectOf(objectOf(message).usage)
      model = textOf(objectOf(message).model)
    },
    content_block_delta({ delta }) {
      const { text, thinking, partial_json: input } = objectOf(delta)
      textBytes += byteLength(text) + byteLength(thinking) + byteLength(input)
    },
    message_delta({ delta, usage }) {
      stop = textOf(objectOf(delta).stop_reason) ?? stop
      if (isObject(usage)) lastUsage = usage
    },
    message_stop: () => {
      isComplete = true
    },
    message(body) {
      model = textOf(body.model)
      stop = textOf(body.stop_reason)
      isComplete = true
      textBytes += listOf(body.content)
        .map(objectOf)
        .reduce((sum, block) => sum + blockBytes(block), 0)
      if (isObject(body.usage)) lastUsage = body.usage
    },
  }
  const takeAny = (event: JsonObject): void => {
    error ??= classifyError(event.error)
    const type = textOf(event.type)
    if (type !== null && Object.hasOwn(take, type)) take[type]?.(event)
  }

  return {
    takeEvent: createEventHandler(takeAny),
    takeBody: (json) => takeAny(objectOf(json)),
    read: () => ({
      usage: lastUsage && parseUsage(firstUsage, lastUsage),
      model,
      isComplete,
      isRefusal: stop === 'refusal',
      isTruncated: stop === 'max_tokens' || stop === 'model_context_window_exceeded',
      partial: { usage: parseUsage(firstUsage, firstUsage), textBytes },
      serviceTier: lastUsage ? findServiceTier({ ...firstUsage, ...lastUsage }) : null,
      error,
    }),
  }
}

const blockBytes = ({ text, thinking, input }: JsonObject): number =>
  byteLength(text) + byteLength(thinking) + jsonBytes(input)

/** Combines the usage at the start and at the end. The end repeats only counts that have changed. */
function parseUsage(first: JsonObject, last: JsonObject): Usage | undefined {
  const count = (name: string): number | undefined => tokensOf(last[name]) ?? tokensOf(first[name])
  const input = count('input_tokens')
  const output = tokensOf(last.output_tokens)
  if (input === undefined || output === undefined) return undefined

  const split = objectOf(isObject(last.cache_creation) ? last.cache_creation : first.cache_creation)
  const details = objectOf(last.output_tokens_details)
  const usage = {
    input,
    cacheRead: count('cache_read_input_tokens') ?? 0,
    ...splitCacheWrites(count('cache_creation_input_tokens'), split),
    output,
    reasoning: Math.min(output, tokensOf(details.thinking_tokens) ?? 0),
  }
  return listOf(last.iterations).map(objectOf).filter(isCompaction).map(toIterationUsage).reduce(addUsage, usage)
}

/** Splits cache writes by lifetime. Writes without a lifetime last five minutes. */
function splitCacheWrites(total: number | undefined, split: JsonObject): Pick<Usage, 'cacheWrite5m' | 'cacheWrite1h'> {
  const short = tokensOf(split.ephemeral_5m_input_tokens) ?? 0
  const long = tokensOf(split.ephemeral_1h_input_tokens) ?? 0
  if (total === undefined) return { cacheWrite5m: short, cacheWrite1h: long }
  const cacheWrite1h = Math.min(long, total)
  return { cacheWrite5m: total - cacheWrite1h, cacheWrite1h }
}

/** Returns true if an iteration is a compaction before the answer. The provider bills it but leaves it out of the sums. */
const isCompaction = ({ type }: JsonObject): boolean => type === 'compaction'

const toIterationUsage = (iteration: JsonObject): Usage => ({
  input: tokensOf(iteration.input_tokens) ?? 0,
  cacheRead: tokensOf(iteration.cache_read_input_tokens) ?? 0,
  ...splitCacheWrites(tokensOf(iteration.cache_creation_input_tokens), objectOf(iteration.cache_creation)),
  output: tokensOf(iteration.output_tokens) ?? 0,
  reasoning: 0,
})

/** Finds the service tier. Fast mode counts as a tier, because it has its own price whatever the tier is. */
const findServiceTier = (usage: JsonObject): string | null =>
  usage.speed === 'fast' ? 'fast' : textOf(usage.service_tier)

const ERROR_TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

const errorType = (status: number): string =>
  ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
