// The scripted provider of the samples in this process, and requests to it in each protocol.

import type { Booked } from '../../samples/provider/books.ts'
import type { MockUsage } from '../../samples/provider/conversation.ts'
import { startProvider } from '../../samples/provider/provider.ts'
import type { ScriptInput } from '../../samples/provider/script.ts'
import type { Json, JsonObject } from '../../src/harnesses/json.ts'
import type { Protocol } from '../../src/harnesses/model-access.ts'

export type TestProvider = Awaited<ReturnType<typeof startTestProvider>>

export async function startTestProvider(script: ScriptInput = {}) {
  const provider = await startProvider(script)
  return { ...provider, totals: () => totalsOf(provider.calls()) }
}

/** Sums the usage of all calls by the provider's own count. */
const totalsOf = (calls: readonly Booked[]): MockUsage =>
  calls.reduce<MockUsage>(
    (sum, { usage }) => ({
      input: sum.input + (usage?.input ?? 0),
      cacheRead: sum.cacheRead + (usage?.cacheRead ?? 0),
      cacheWrite5m: sum.cacheWrite5m + (usage?.cacheWrite5m ?? 0),
      cacheWrite1h: sum.cacheWrite1h + (usage?.cacheWrite1h ?? 0),
      output: sum.output + (usage?.output ?? 0),
      reasoning: sum.reasoning + (usage?.reasoning ?? 0),
    }),
    { input: 0, cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0, output: 0, reasoning: 0 },
  )

export type ProviderRequest = {
  model: string
  prompt: string
  isStream: boolean
  effort?: string
  /** Number of shell calls that already have results. */
  results?: number
}

/** Builds a request as a program would send it, with a shell as its only tool. */
export function buildProviderRequest(
  protocol: Protocol,
  question: ProviderRequest,
): { path: string; body: JsonObject } {
  const ask: Record<Protocol, () => { path: string; body: JsonObject }> = {
    'anthropic-messages': () => anthropic(question),
    'openai-chat': () => chat(question),
    'openai-responses': () => responses(question),
    gemini: () => gemini(question),
  }
  return ask[protocol]()
}

const SCHEMA: Json = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }

const times = (count: number | undefined, made: (place: number) => JsonObject[]): JsonObject[] =>
  Array.from({ length: count ?? 0 }, (_, place) => made(place)).flat()

function anthropic({ model, prompt, isStream, effort, results }: ProviderRequest) {
  const answered = times(results, (id) => [
    { role: 'assistant', content: [{ type: 'tool_use', id: `t${id}`, name: 'Bash', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: `t${id}`, content: 'done' }] },
  ])
  const body = {
    model,
    max_tokens: 4000,
    stream: isStream,
    tools: [{ name: 'Bash', input_schema: SCHEMA }],
    ...(effort === undefined ? {} : { thinking: { type: 'adaptive' }, output_config: { effort } }),
    messages: [{ role: 'user', content: prompt }, ...answered],
  }
  return { path: '/v1/messages', body }
}

function chat({ model, prompt, isStream, effort, results }: ProviderRequest) {
  const answered = times(results, (id) => [
    {
      role: 'assistant',
      tool_calls: [{ id: `t${id}`, type: 'function', function: { name: 'shell', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: `t${id}`, content: 'done' },
  ])
  const body = {
    model,
    stream: isStream,
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    tools: [{ type: 'function', function: { name: 'shell', parameters: SCHEMA } }],
    messages: [{ role: 'user', content: prompt }, ...answered],
  }
  return { path: '/v1/chat/completions', body }
}

function responses({ model, prompt, isStream, effort, results }: ProviderRequest) {
  const answered = times(results, (id) => [
    { type: 'function_call', call_id: `t${id}`, name: 'shell', arguments: '{}' },
    { type: 'function_call_output', call_id: `t${id}`, output: 'done' },
  ])
  const body = {
    model,
    stream: isStream,
    ...(effort === undefined ? {} : { reasoning: { effort } }),
    tools: [{ type: 'function', name: 'shell', parameters: SCHEMA }],
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: prompt }] }, ...answered],
  }
  return { path: '/v1/responses', body }
}

function gemini({ model, prompt, isStream, effort, results }: ProviderRequest) {
  const answered = times(results, () => [
    { role: 'model', parts: [{ functionCall: { name: 'shell', args: {} } }] },
    { role: 'user', parts: [{ functionResponse: { name: 'shell', response: { output: 'done' } } }] },
  ])
  const body = {
    ...(effort === undefined ? {} : { generationConfig: { thinkingConfig: { thinkingLevel: effort.toUpperCase() } } }),
    tools: [{ functionDeclarations: [{ name: 'shell', parametersJsonSchema: SCHEMA }] }],
    contents: [{ role: 'user', parts: [{ text: prompt }] }, ...answered],
  }
  return { path: `/v1beta/models/${model}:${isStream ? 'streamGenerateContent' : 'generateContent'}`, body }
}
