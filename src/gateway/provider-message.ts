import { isObject, type Json, parseJson } from '../harnesses/json.ts'
import { printable } from '../platform/terminal-text.ts'

/** Longer bodies are read as text without looking for fields. */
const PARSED_LENGTH_MAX = 64 * 1024
const MESSAGE_LENGTH_MAX = 500
/** Maximum length of the text in which keys are searched by pattern, which takes quadratic time on long words. */
const SEARCHED_LENGTH_MAX = 2000

/** Returns the message of an error response, or null if it has none. The body is untrusted; keys are removed from it. */
export function readProviderMessage(body: string, keys: readonly string[]): string | null {
  const json = body.length > PARSED_LENGTH_MAX ? undefined : parseJson(body)
  const text = json === undefined ? findPlainMessage(body) : findMessage(json)
  return text === undefined ? null : toStorableMessage(text, keys)
}

/** Makes a message storable and quotable: one line, bounded, and without the keys or anything that looks like one. */
export function toStorableMessage(text: string, keys: readonly string[]): string | null {
  const withoutKeys = keys.reduce((shown, key) => (key === '' ? shown : shown.replaceAll(key, REDACTED)), text)
  const start = withoutKeys.slice(0, SEARCHED_LENGTH_MAX)
  const line = printable(start.replaceAll(/\s+/g, ' ')).replaceAll(KEY_LIKE, REDACTED).toWellFormed().trim()
  if (line === '') return null
  return line.length > MESSAGE_LENGTH_MAX ? `${line.slice(0, MESSAGE_LENGTH_MAX).toWellFormed()} …` : line
}

const REDACTED = '[removed]'

/** Keys with a usual prefix, keys of which the middle is masked, and values of authorization headers. */
const KEY_LIKE =
  /\b(?:sk|pk|rk|xai|gsk|hf|key|api|AIza)[-_][\w*.-]{6,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b|\bAIza[\w*-]{10,}|\bya29\.[\w.-]+|[\w-]{2,}\*{3,}[\w*-]*|(?<=\bBearer )[\w*.~+/=-]+/g

/**
 * Finds the message in a body that is not JSON. An HTML page is a proxy's error page; only its title is worth quoting.
 */
function findPlainMessage(body: string): string | undefined {
  const start = body.slice(0, PARSED_LENGTH_MAX).trim()
  if (!start.startsWith('<')) return start === '' ? undefined : start
  return /<title>([^<]{1,200})<\/title>/i.exec(start)?.[1]
}

/**
 * Finds the message in the forms that providers use: `error.message`, `error`, `message`, `detail`, or a list of
 * these.
 */
function findMessage(json: Json): string | undefined {
  const value = Array.isArray(json) ? json[0] : json
  if (typeof value === 'string') return value
  if (!isObject(value)) return undefined
  const inner = isObject(value.error) ? value.error : value
  return [inner.message, value.error, inner.detail, inner.error].find((each) => typeof each === 'string')
}

/** Sizes of a request that exceeds the context of its model. */
type ContextExcess = { tokens: number; limit: number }

/** Error messages for a request that is too long. `order` has the groups of the request's length and of the limit. */
const CONTEXT_ERRORS: readonly { pattern: RegExp; order: readonly [tokens: number, limit: number] }[] = [
  // llama.cpp: request (2257 tokens) exceeds the available context size (1024 tokens)
  { pattern: /\((\d+) tokens\) exceeds the available context size \((\d+) tokens\)/i, order: [1, 2] },
  // Anthropic: prompt is too long: 210000 tokens > 200000 maximum
  { pattern: /too long: (\d+) tokens > (\d+)/i, order: [1, 2] },
  // OpenAI, vLLM: maximum context length is 4096 tokens. However, you requested 5000 tokens
  {
    pattern: /maximum context length is (\d+) tokens.{0,80}?(?:requested|resulted in)(?: about)? (\d+)/i,
    order: [2, 1],
  },
  // Gemini: The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)
  { pattern: /token count \((\d+)\) exceeds the maximum number of tokens allowed \((\d+)\)/i, order: [1, 2] },
  // LM Studio: tried to keep 5000 tokens … with context length of only 4096 tokens
  { pattern: /keep (\d+) tokens.{0,200}?context length of only (\d+)/i, order: [1, 2] },
]

/** Returns both sizes if a message reports that a request is longer than the context of the model. */
export function findContextExcess(message: string): ContextExcess | undefined {
  for (const { pattern, order } of CONTEXT_ERRORS) {
    const match = pattern.exec(message)
    if (match) return { tokens: Number(match[order[0]]), limit: Number(match[order[1]]) }
  }
  return undefined
}
