import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AskModel, ModelReply } from '../../harnesses/conversation.ts'
import { harnesses } from '../../harnesses/harnesses.ts'
import { isObject, type JsonObject, parseJson } from '../../harnesses/json.ts'
import { mini } from '../../harnesses/mini.ts'
import type { OutputRule } from '../../harnesses/output-mapping.ts'
import { buildEventParser } from '../../harnesses/output-mapping.ts'
import { buildTrajectory } from '../../harnesses/trajectory.ts'
import { wireProtocols } from '../protocols.ts'
import { anthropicMessages } from './anthropic-messages.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

const SEED = 15_002
const clientProtocols = {
  'anthropic-messages': anthropicMessages,
  'openai-chat': openaiChat,
  'openai-responses': openaiResponses,
  gemini,
}

const deep = (depth: number): unknown => JSON.parse(`${'[{"a":'.repeat(depth)}1${'}]'.repeat(depth)}`)
/** Values that break programs: conversions that throw, inherited names, numbers that are none, nesting. */
const poison = fc.oneof(
  fc.constantFrom<unknown>(
    { toString: 1, valueOf: null },
    { __proto__: null },
    'constructor',
    '\0',
    '\ud800',
    -0,
    1e308,
  ),
  fc.constantFrom<unknown>(deep(3), deep(45), deep(60), deep(9000), [[[[]]]], -1, 0.5, 1e21, null, true),
  fc.jsonValue({ maxDepth: 2 }),
)
const WORDS = [
  ...['content', 'type', 'text', 'thinking', 'id', 'name', 'input', 'stop_reason', 'usage', 'input_tokens', 'message'],
  ...['choices', 'tool_calls', 'function', 'arguments', 'finish_reason', 'reasoning_content', 'refusal', 'call_id'],
  ...[
    'output',
    'summary',
    'status',
    'incomplete_details',
    'candidates',
    'parts',
    'functionCall',
    'args',
    'output_tokens',
  ],
  ...['finishReason', 'promptFeedback', 'role', 'item', 'data', 'part', 'state', 'result', 'tool', 'toolRequests'],
]
const KINDS = [
  ...[
    'text',
    'tool_use',
    'thinking',
    'message',
    'function_call',
    'reasoning',
    'output_text',
    'assistant',
    'user',
    'turn',
  ],
  ...[
    'item.completed',
    'mcp_tool_call',
    'assistant.message',
    'tool.execution_complete',
    'tool_result',
    'call',
    'result',
  ],
  ...['message_end', 'tool_execution_end', 'toolCall', 'shell', 'tool', 'max_tokens'],
]
const { tree } = fc.letrec<{ tree: unknown; list: unknown; object: unknown; leaf: unknown }>((tie) => ({
  tree: fc.oneof({ depthSize: 'small', withCrossShrink: true }, tie('leaf'), tie('object'), tie('list')),
  leaf: fc.oneof(fc.constantFrom(...KINDS), fc.string({ unit: 'binary', maxLength: 8 }), poison),
  list: fc.array(tie('tree'), { maxLength: 3 }),
  object: fc.dictionary(fc.constantFrom(...WORDS), tie('tree'), { maxKeys: 6, noNullPrototype: true }),
}))
/** As text: what is nested too deeply cannot be written by JSON.stringify, but it can be sent. */
const sent = fc.oneof(
  tree.map((value) => textOf(value)),
  tree.map(
    (value) =>
      `{"choices":[{"message":{"tool_calls":[{"function":{"name":"shell","arguments":${textOf(textOf(value))}}}]}}]}`,
  ),
  fc
    .nat(9000)
    .map(
      (depth) =>
        `{"content":[{"type":"tool_use","id":"a","name":"shell","input":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}]}`,
    ),
  fc.string({ unit: 'binary' }),
)
const textOf = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch {
    return `${'['.repeat(9000)}${']'.repeat(9000)}`
  }
}

const isPlain = ({ text, thought, calls, stop }: ModelReply): boolean =>
  [text, thought, stop, ...calls.flatMap(({ id, name }) => [id, name])].every((value) => typeof value === 'string') &&
  calls.every((call) => isObject(call.arguments))

test.each(Object.entries(clientProtocols))(
  '%s: any answer is a reply that can be serialized',
  (protocol, clientProtocol) => {
    const wire = wireProtocols[protocol as keyof typeof wireProtocols]
    fc.assert(
      fc.property(sent, (text) => {
        const answer = parseJson(text)
        if (!isObject(answer)) return
        const reply = clientProtocol.parseReply(answer)
        expect(isPlain(reply)).toBe(true)
        JSON.stringify(reply)
        const meter = wire.createMeter()
        meter.takeBody(answer)
        meter.takeEvent(text)
        const { usage } = meter.read()
        for (const tokens of Object.values(usage ?? {})) expect(Number.isInteger(tokens) && tokens >= 0).toBe(true)
      }),
      { seed: SEED, numRuns: 400 },
    )
  },
)

test('mini ends by itself whatever its model answers', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(sent, { maxLength: 3 }),
      fc.constantFrom(...Object.values(clientProtocols)),
      async (texts, clientProtocol) => {
        const answers = texts.flatMap((text) => {
          const value = parseJson(text)
          return isObject(value) ? [clientProtocol.parseReply(value)] : []
        })
        const lines: string[] = []
        const ask: AskModel = async () =>
          answers.shift() ?? { text: 'Done.', thought: '', calls: [], raw: null, stop: 'done' }
        const code = await mini.converse?.({
          instruction: 'Do it.',
          ask,
          signal: new AbortController().signal,
          exec: async () => ({ output: '\0\ud800', code: -1 }),
          emit: (line: JsonObject) => void lines.push(JSON.stringify(line)),
        })
        expect([0, 1]).toContain(code)
        buildTrajectory(mini, { instruction: '', output: lines.join('\n'), model: undefined })
      },
    ),
    { seed: SEED, numRuns: 100 },
  )
})

const RULES: OutputRule[] = [
  { when: {}, where: {}, tells: 'message', text: 'message.content' },
  { when: {}, each: 'content', where: {}, tells: 'call', id: 'id', name: 'name', arguments: 'arguments' },
  { when: {}, where: {}, tells: 'result', id: 'id', text: 'output' },
]

test('any output gives a serializable trajectory or none, for every harness', () => {
  const tellers = [...harnesses, { id: 'described', version: '1', trajectoryEvents: buildEventParser(RULES) }]
  fc.assert(
    fc.property(fc.array(sent, { maxLength: 5 }), (lines) => {
      for (const teller of tellers)
        JSON.stringify(buildTrajectory(teller, { instruction: '', output: lines.join('\n'), model: 'm' }))
    }),
    { seed: SEED, numRuns: 200 },
  )
})
