import type { Message, ModelReply, ModelRequest, StopReason } from '../../harnesses/conversation.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess, WireLevel } from '../../harnesses/model-access.ts'
import { listOf, objectOf } from '../protocols/fields.ts'
import { buildSystemPrompt, type ClientProtocol, type ClientRequestBody, toPlainText } from './client-protocol.ts'

export const gemini: ClientProtocol = {
  buildPath: (model, isStream) =>
    `/v1beta/models/${encodeURIComponent(model)}:${isStream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
  buildHeaders: (token) => ({ 'x-goog-api-key': token }),
  buildBody,
  parseReply,
  streamMembers: {},
  assemble,
}

function buildBody({ wireLevel }: ModelAccess, request: ModelRequest): ClientRequestBody {
  const { tools = [], shape, messages } = request
  const thinkingConfig = toThinking(wireLevel)
  const functionDeclarations = tools.map(({ name, description, schema }) => ({
    name,
    description,
    parametersJsonSchema: schema,
  }))
  return {
    systemInstruction: { parts: [{ text: buildSystemPrompt(request) }] },
    contents: messages.map(toContent),
    tools: tools.length > 0 ? [{ functionDeclarations }] : undefined,
    generationConfig:
      thinkingConfig || shape
        ? {
            thinkingConfig,
            responseMimeType: shape && 'application/json',
            responseJsonSchema: shape?.schema,
          }
        : undefined,
  }
}

function toThinking(wire: WireLevel): JsonObject | undefined {
  if ('effort' in wire) return { thinkingLevel: wire.effort.toUpperCase() }
  if ('budgetTokens' in wire) return { thinkingBudget: wire.budgetTokens }
  return 'off' in wire ? { thinkingBudget: 0 } : undefined
}

function toContent(message: Message): ClientRequestBody {
  if (message.role === 'user') return { role: 'user', parts: [{ text: message.text }] }
  if (message.role === 'model') return { role: 'model', parts: message.raw }
  const parts = message.results.map(({ id, name, text }) => ({
    functionResponse: { id: isGenerated(id) ? undefined : id, name, response: { output: text } },
  }))
  return { role: 'user', parts }
}

/** Prefix of generated ids. Many calls have no id, and the provider rejects ids that it did not issue. */
const GENERATED_ID_PREFIX = 'call-'
const isGenerated = (id: string): boolean => id.startsWith(GENERATED_ID_PREFIX)

const REFUSAL_REASONS = ['SAFETY', 'PROHIBITED_CONTENT', 'BLOCKLIST', 'SPII', 'RECITATION', 'LANGUAGE']

function parseReply(answer: JsonObject): ModelReply {
  const candidate = objectOf(listOf(answer.candidates)[0])
  const parts = listOf(objectOf(candidate.content).parts).map(objectOf)
  const texts = parts.filter(({ text }) => typeof text === 'string')
  const isThought = ({ thought }: JsonObject): boolean => thought === true
  const calls = parts.flatMap(({ functionCall }) => (functionCall === undefined ? [] : [objectOf(functionCall)]))
  const isRefusal =
    objectOf(answer.promptFeedback).blockReason !== undefined ||
    REFUSAL_REASONS.includes(toPlainText(candidate.finishReason))
  return {
    text: joinText(texts.filter((part) => !isThought(part))),
    thought: joinText(texts.filter(isThought)),
    calls: calls.map(({ id, name, args }, index) => ({
      id: typeof id === 'string' ? id : `${GENERATED_ID_PREFIX}${index}`,
      name: toPlainText(name),
      arguments: objectOf(args),
    })),
    raw: parts.length > 0 ? parts : [{ text: '(nothing)' }],
    stop: isRefusal ? 'refusal' : toStopReason(candidate, calls.length > 0),
  }
}

const joinText = (parts: readonly JsonObject[]): string => parts.map(({ text }) => toPlainText(text)).join('')

function toStopReason({ finishReason }: JsonObject, hasCalls: boolean): StopReason {
  if (finishReason === 'MAX_TOKENS') return 'length'
  return hasCalls ? 'tools' : 'done'
}

/** Joins the chunks of a stream. The last chunk has the reason of the end, and the final usage. */
function assemble(chunks: readonly JsonObject[]): JsonObject | undefined {
  const candidates = chunks.map(({ candidates }) => objectOf(listOf(candidates)[0]))
  const end = candidates.findLast(({ finishReason }) => finishReason !== undefined)
  const blocked = chunks.find(({ promptFeedback }) => objectOf(promptFeedback).blockReason !== undefined)
  if (!end && !blocked) return undefined
  const parts = candidates.flatMap(({ content }) => listOf(objectOf(content).parts).map(objectOf))
  const usage = chunks.findLast(({ usageMetadata }) => usageMetadata !== undefined)
  return {
    ...chunks.at(-1),
    ...(blocked ? { promptFeedback: objectOf(blocked.promptFeedback) } : {}),
    candidates: [{ ...end, content: { role: 'model', parts: joinTexts(parts) } }],
    usageMetadata: objectOf(usage?.usageMetadata),
  }
}

/** Joins neighbouring texts. Other members, such as the signature of a thought, belong to exactly one part. */
function joinTexts(parts: readonly JsonObject[]): JsonObject[] {
  const joined: JsonObject[] = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (last && isPlain(last) && isPlain(part) && last.thought === part.thought) last.text = `${last.text}${part.text}`
    else joined.push({ ...part })
  }
  return joined
}

const isPlain = ({ text, thought: _thought, ...others }: JsonObject): boolean =>
  typeof text === 'string' && Object.keys(others).length === 0
