import { listOf, objectOf, textOf, tokensOf } from '../../../src/gateway/protocols/fields.ts'
import type { JsonObject } from '../../../src/harnesses/json.ts'
import {
  answerPieces,
  type Conversation,
  inputText,
  type MockAnswer,
  type MockUsage,
  piecesOf,
  type Speech,
  textIn,
} from '../conversation.ts'
import { openaiProblem } from './openai-problem.ts'

export const openaiChat: Speech = {
  protocol: 'openai-chat',
  read,
  // OpenAI has a single class of cache writes.
  sayable: (usage) => ({ ...usage, cacheWrite5m: usage.cacheWrite5m + usage.cacheWrite1h, cacheWrite1h: 0 }),
  whole: (answer) => ({
    ...headOf(answer, 'chat.completion'),
    choices: [{ index: 0, message: messageOf(answer), finish_reason: finishOf(answer), logprobs: null }],
    usage: usageOf(answer.usage),
  }),
  events: eventsOf,
  pieces: answerPieces,
  problem: openaiProblem,
}

function read(_path: string, body: JsonObject): Conversation {
  const messages = listOf(body.messages).map(objectOf)
  return {
    model: textOf(body.model) ?? '',
    isStream: body.stream === true,
    level: levelOf(body),
    tools: listOf(body.tools)
      .map((tool) => objectOf(objectOf(tool).function))
      .map(({ name, parameters }) => ({
        name: textOf(name) ?? '',
        kind: 'function',
        schema: objectOf(parameters),
        namespace: null,
      })),
    prompt: messages
      .filter(({ role }) => role === 'user')
      .map(({ content }) => textIn(content))
      .join('\n'),
    results: messages.filter(({ role }) => role === 'tool').length,
    lastResult: textIn(messages.findLast(({ role }) => role === 'tool')?.content),
    wantsUsage: objectOf(body.stream_options).include_usage === true,
    outputMax: tokensOf(body.max_completion_tokens) ?? tokensOf(body.max_tokens) ?? null,
  }
}

function levelOf({ reasoning_effort: effort, reasoning, thinking }: JsonObject): string | null {
  if (reasoning === false || objectOf(thinking).type === 'disabled') return 'off'
  return textOf(effort) ?? textOf(objectOf(reasoning).effort)
}

const headOf = ({ id, model }: MockAnswer, object: string): JsonObject => ({
  id: `chatcmpl-${id}`,
  object,
  created: 1_700_000_000,
  model,
  service_tier: 'default',
})

function finishOf({ call, isRefusal, isTruncated }: MockAnswer): string {
  if (isTruncated) return 'length'
  if (isRefusal) return 'content_filter'
  return call ? 'tool_calls' : 'stop'
}

const callOf = ({ id, call }: MockAnswer, input: string): JsonObject => ({
  id: `call_${id}`,
  type: 'function',
  function: { name: call?.tool.name ?? '', arguments: input },
})

const messageOf = (answer: MockAnswer): JsonObject => ({
  role: 'assistant',
  content: answer.isRefusal ? null : answer.text,
  refusal: refusalOf(answer),
  ...(answer.call ? { tool_calls: [callOf(answer, inputText(answer.call))] } : {}),
})

const refusalOf = ({ isRefusal, text }: MockAnswer): string | null => (isRefusal ? text : null)

const usageOf = (usage: MockUsage): JsonObject => {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite5m
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead, cache_write_tokens: usage.cacheWrite5m },
    completion_tokens_details: { reasoning_tokens: usage.reasoning },
  }
}

function eventsOf(answer: MockAnswer): string[] {
  const head = headOf(answer, 'chat.completion.chunk')
  const chunk = (delta: JsonObject, finish: string | null = null): JsonObject => ({
    ...head,
    choices: [{ index: 0, delta, finish_reason: finish }],
  })
  const field = answer.isRefusal ? 'refusal' : 'content'
  const called = answer.call
    ? [
        { tool_calls: [{ index: 0, ...callOf(answer, '') }] },
        ...piecesOf(inputText(answer.call)).map((piece) => ({
          tool_calls: [{ index: 0, function: { arguments: piece } }],
        })),
      ]
    : []
  const chunks = [
    chunk({ role: 'assistant', content: '' }),
    ...piecesOf(answer.text).map((piece) => chunk({ [field]: piece })),
    ...called.map((delta) => chunk(delta)),
    chunk({}, finishOf(answer)),
    ...(answer.wantsUsage ? [{ ...head, choices: [], usage: usageOf(answer.usage) }] : []),
  ]
  return [...chunks.map((data) => `data: ${JSON.stringify(data)}\n\n`), 'data: [DONE]\n\n']
}
