import { describe, expect, test } from 'vitest'
import type { ModelRequest } from '../../harnesses/conversation.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { ModelAccess } from '../../harnesses/model-access.ts'
import { findJsonValue } from '../../taskgen/models/ask-typed.ts'
import { anthropicMessages } from './anthropic-messages.ts'
import { gemini } from './gemini.ts'
import { openaiChat } from './openai-chat.ts'
import { openaiResponses } from './openai-responses.ts'

const clientProtocols = { anthropicMessages, openaiChat, openaiResponses, gemini }

const HOSTILE: JsonObject[] = [
  {},
  { content: 'text', choices: 'none', output: {}, candidates: [null] },
  {
    content: [null, 1, { type: 'tool_use' }],
    choices: [{ message: { tool_calls: [null, { function: { arguments: '[' } }] } }],
  },
  {
    output: [{ type: 'function_call', arguments: '"no object"' }, null],
    candidates: [{ content: { parts: [{ functionCall: 7 }] } }],
  },
  { choices: [{ message: { role: 'system', content: { evil: true } } }], output: [[[]]], content: [[]] },
]

describe.each(Object.entries(clientProtocols))('%s', (_name, clientProtocol) => {
  test.each(HOSTILE)('reads an answer of any shape: %j', (answer) => {
    const reply = clientProtocol.parseReply(answer)
    expect(typeof reply.text).toBe('string')
    for (const call of reply.calls) {
      expect([typeof call.id, typeof call.name]).toEqual(['string', 'string'])
      expect(call.arguments).toEqual(expect.any(Object))
    }
  })

  test('sends the model’s messages back unchanged', () => {
    const said = [{ type: 'thinking', thinking: 'hm', signature: 'sealed' }]
    const access = { model: 'm', outputTokens: 9, wireLevel: { nothing: true } }
    const asking: Pick<ModelRequest, 'system' | 'messages'> = { system: 's', messages: [{ role: 'model', raw: said }] }
    const body = clientProtocol.buildBody(access as unknown as ModelAccess, { ...asking, signal: AbortSignal.abort() })
    if (clientProtocol !== openaiChat) expect(JSON.stringify(body)).toContain(JSON.stringify(said).slice(1, -1))
  })

  test('asks for a schema in the protocol and in the prompt', () => {
    const access = { model: 'm', outputTokens: 9, wireLevel: { nothing: true } }
    const shape = { name: 'verdict', schema: { type: 'object', properties: { right: { type: 'boolean' } } } }
    const messages = [{ role: 'user' as const, text: 'u' }]
    const asking = { system: 's', messages, shape, signal: AbortSignal.abort() }
    const body = JSON.stringify(clientProtocol.buildBody(access as unknown as ModelAccess, asking))
    expect(body.split('"right"').length).toBe(2)
    expect(body).toContain('\\"right\\"')
  })
})

test('a chat message keeps its reasoning and has the role assistant', () => {
  const message = { role: 'system', content: null, reasoning_content: 'hm', tool_calls: [] }
  const { raw, thought } = openaiChat.parseReply({ choices: [{ message }] })
  expect({ raw, thought }).toEqual({ thought: 'hm', raw: { ...message, role: 'assistant' } })
})

test.each([
  ['{"a":1}', { a: 1 }],
  ['Here it is:\n```json\n{"a":1}\n```\nBye.', { a: 1 }],
  ['Sure: {"a":[1]} as you wish', { a: [1] }],
  ['no value', undefined],
  ['{"a":', undefined],
  ['```', undefined],
])('finds the JSON value in %j', (text, value) => {
  expect(findJsonValue(text)).toEqual(value)
})
