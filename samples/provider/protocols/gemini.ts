import { listOf, objectOf, textOf, tokensOf } from '../../../src/gateway/protocols/fields.ts'
import type { Json, JsonObject } from '../../../src/harnesses/json.ts'
import { type Conversation, type MockAnswer, type MockUsage, piecesOf, type Speech, textIn } from '../conversation.ts'

export const gemini: Speech = {
  protocol: 'gemini',
  read,
  // Gemini writes caches only on explicit request, which is not part of a call.
  sayable: (usage) => ({
    ...usage,
    input: usage.input + usage.cacheWrite5m + usage.cacheWrite1h,
    cacheWrite5m: 0,
    cacheWrite1h: 0,
  }),
  whole: (answer) => chunk(answer, [...textParts(answer), ...callParts(answer)], finishOf(answer)),
  events: eventsOf,
  pieces: (answer) => [THOUGHT, ...(answer.isRefusal ? [] : piecesOf(answer.text))],
  problem: (status, message) => ({ error: { code: status, message, status: STATUSES[status] ?? 'INTERNAL' } }),
}

const STATUSES: Record<number, string> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
}

function read(path: string, body: JsonObject): Conversation {
  const [, model = '', verb] = /\/models\/([^/:]+):(\w+)$/.exec(path) ?? []
  const contents = listOf(body.contents).map(objectOf)
  const parts = contents.flatMap((content) => listOf(content.parts)).map(objectOf)
  return {
    model: decodeURIComponent(model),
    isStream: verb === 'streamGenerateContent',
    level: levelOf(objectOf(objectOf(body.generationConfig).thinkingConfig)),
    tools: listOf(body.tools)
      .flatMap((tool) => listOf(objectOf(tool).functionDeclarations))
      .map(objectOf)
      .map(({ name, parameters, parametersJsonSchema }) => ({
        name: textOf(name) ?? '',
        kind: 'function',
        namespace: null,
        schema: objectOf(parametersJsonSchema ?? parameters),
      })),
    prompt: contents
      .filter(({ role }) => role !== 'model')
      .map((content) => textIn(content.parts))
      .join('\n'),
    results: parts.filter((part) => part.functionResponse !== undefined).length,
    lastResult: JSON.stringify(parts.findLast((part) => part.functionResponse !== undefined) ?? ''),
    wantsUsage: true,
    outputMax: tokensOf(objectOf(body.generationConfig).maxOutputTokens) ?? null,
  }
}

function levelOf({ thinkingLevel, thinkingBudget }: JsonObject): string | null {
  if (thinkingBudget === 0) return 'off'
  return textOf(thinkingLevel) ?? (typeof thinkingBudget === 'number' ? `budget ${thinkingBudget}` : null)
}

function finishOf({ isRefusal, isTruncated }: MockAnswer): string {
  if (isTruncated) return 'MAX_TOKENS'
  return isRefusal ? 'SAFETY' : 'STOP'
}

const THOUGHT = 'Let me see.'

const textParts = ({ text, isRefusal }: MockAnswer): Json[] => (text === '' || isRefusal ? [] : [{ text }])

const callParts = ({ call, id }: MockAnswer): Json[] =>
  call ? [{ functionCall: { id, name: call.tool.name, args: call.input }, thoughtSignature: 'c2NyaXB0ZWQ=' }] : []

function chunk({ id, model, usage }: MockAnswer, parts: Json[], finishReason: string | null): JsonObject {
  const candidate = { index: 0, content: { role: 'model', parts }, ...(finishReason === null ? {} : { finishReason }) }
  return {
    candidates: [candidate],
    usageMetadata: finishReason === null ? promptCounts(usage) : usageOf(usage),
    modelVersion: model,
    responseId: id,
  }
}

const promptOf = ({ input, cacheRead }: MockUsage): number => input + cacheRead

const promptCounts = (usage: MockUsage): JsonObject => ({
  promptTokenCount: promptOf(usage),
  cachedContentTokenCount: usage.cacheRead,
})

/** Separates reasoning tokens from output tokens. */
const usageOf = (usage: MockUsage): JsonObject => ({
  promptTokenCount: promptOf(usage),
  cachedContentTokenCount: usage.cacheRead,
  candidatesTokenCount: usage.output - usage.reasoning,
  thoughtsTokenCount: usage.reasoning,
  totalTokenCount: promptOf(usage) + usage.output,
})

function eventsOf(answer: MockAnswer): string[] {
  const said = answer.isRefusal ? [] : piecesOf(answer.text)
  const chunks = [
    chunk(answer, [{ text: THOUGHT, thought: true }], null),
    ...said.map((text) => chunk(answer, [{ text }], null)),
    chunk(answer, callParts(answer), finishOf(answer)),
  ]
  return chunks.map((data) => `data: ${JSON.stringify(data)}\r\n\r\n`)
}
