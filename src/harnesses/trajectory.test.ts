import { expect, test } from 'vitest'
import { claudeCode } from './claude-code.ts'
import { harnesses } from './harnesses.ts'
import { trajectoryOf } from './trajectory.ts'

const lines = (...values: unknown[]): string => values.map((value) => JSON.stringify(value)).join('\n')
const said = (...content: unknown[]) => ({ type: 'assistant', message: { content } })
const heard = (...content: unknown[]) => ({ type: 'user', message: { content } })
const told = (output: string) => trajectoryOf(claudeCode, { instruction: 'Do it.', output, model: 'm' })

test('a conversation becomes steps, and results belong to the step that made the call', () => {
  const output = lines(
    { type: 'system', subtype: 'init' },
    said({ type: 'thinking', thinking: 'Hm.' }),
    said({ type: 'text', text: 'I look.' }, { type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'ls' } }),
    heard({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'x.ts' }] }),
    said({ type: 'text', text: 'Done.' }),
  )
  expect(told(output)).toEqual({
    schema_version: 'ATIF-v1.7',
    agent: { name: 'claude-code', version: claudeCode.version, model_name: 'm' },
    steps: [
      { step_id: 1, source: 'user', message: 'Do it.' },
      {
        ...{ step_id: 2, source: 'agent', message: 'I look.', reasoning_content: 'Hm.' },
        tool_calls: [{ tool_call_id: 'a', function_name: 'Bash', arguments: { command: 'ls' } }],
        observation: { results: [{ source_call_id: 'a', content: 'x.ts' }] },
      },
      { step_id: 3, source: 'agent', message: 'Done.' },
    ],
  })
})

test.each([
  ['nothing', ''],
  ['no JSON', 'warning: {\n{"type":\n}{'],
  ['JSON of other kinds', '{}\n[1]\nnull\n{"type":"assistant"}\n{"type":"assistant","message":{"content":"x"}}'],
  ['a result of no call', lines(heard({ type: 'tool_result', tool_use_id: 'z', content: 'x' }))],
  ['what is nested too deep', `{"type":"assistant","message":{"content":${'['.repeat(200_000)}`],
])('%s tells nothing, and does no harm', (_name, output) => {
  for (const harness of harnesses)
    expect(trajectoryOf(harness, { instruction: '', output, model: undefined })).toBeUndefined()
})

test('what is endless is cut short', () => {
  const long = told(lines(said({ type: 'text', text: 'x'.repeat(500_000) }), said({ type: 'text', text: 'y' })))
  expect(long?.steps[1]?.message.length).toBeLessThan(100_100)
  const step = (n: number) => [
    said({ type: 'tool_use', id: `${n}`, name: 'Bash', input: {} }),
    heard({ type: 'tool_result', tool_use_id: `${n}`, content: '' }),
  ]
  const many = told(lines(...Array.from({ length: 20_000 }, (_, n) => step(n)).flat()))
  expect(many?.steps).toHaveLength(10_000)
  expect(many?.notes).toBeTruthy()
})

test('half a character is no character', () => {
  const output = '{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud83d"}]}}'
  expect(told(output)?.steps[1]?.message.isWellFormed()).toBe(true)
})
