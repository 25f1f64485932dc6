import { expect, test } from 'vitest'
import type { JsonObject } from '../../harnesses/json.ts'
import { assembleChat, openaiChat } from './openai-chat.ts'

const delta = (part: JsonObject, finish: string | null = null): JsonObject => ({
  model: 'm',
  choices: [{ index: 0, delta: part, finish_reason: finish }],
})

test('a streamed answer reads as the same answer in one piece', () => {
  const answer = assembleChat([
    delta({ role: 'assistant', reasoning_content: 'Let me ' }),
    delta({ reasoning_content: 'see.' }),
    delta({ content: 'I will ' }),
    delta({ content: 'look.' }),
    delta({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'shell', arguments: '{"comm' } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: 'and":"ls"}' } }] }),
    delta({ tool_calls: [{ index: 1, id: 'b', function: { name: 'shell', arguments: '{}' } }] }),
    delta({}, 'tool_calls'),
    { choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } },
  ])
  expect(answer).toMatchObject({ model: 'm', usage: { prompt_tokens: 7, completion_tokens: 3 } })
  expect(openaiChat.parseReply(answer ?? {})).toMatchObject({
    text: 'I will look.',
    thought: 'Let me see.',
    calls: [
      { id: 'a', name: 'shell', arguments: { command: 'ls' } },
      { id: 'b', name: 'shell', arguments: {} },
    ],
    stop: 'tools',
  })
})

test('a stream without an end is no answer', () => {
  expect(assembleChat([delta({ content: 'half' })])).toBeUndefined()
  expect(assembleChat([])).toBeUndefined()
})

test.each<JsonObject[]>([
  [delta({ tool_calls: [{ index: 1e9, function: { name: 'x' } }, { index: -1 }, null, 7] }), delta({}, 'stop')],
  [delta({ tool_calls: [{ index: 5, id: 'late', function: { name: 'shell' } }] }), delta({}, 'stop')],
  [delta({ content: { evil: true }, tool_calls: 'none' }), { choices: 'none' }, delta({}, 'stop')],
])('events of any shape are read: %j', (...events) => {
  const { calls, text } = openaiChat.parseReply(assembleChat(events) ?? {})
  expect(text).toBe('')
  expect(calls.length).toBeLessThan(5)
})
