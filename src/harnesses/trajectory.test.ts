import { expect, test } from 'vitest'
import { claudeCode } from './claude-code.ts'
import { harnesses } from './harnesses.ts'
import { buildTrajectory } from './trajectory.ts'

const lines = (...values: unknown[]): string => values.map((value) => JSON.stringify(value)).join('\n')
const assistantLine = (...content: unknown[]) => ({ type: 'assistant', message: { content } })
const userLine = (...content: unknown[]) => ({ type: 'user', message: { content } })
const build = (output: string) => buildTrajectory(claudeCode, { instruction: 'Do it.', output, model: 'm' })

test('converts output to steps and adds results to the step that made the call', () => {
  const output = lines(
    { type: 'system', subtype: 'init' },
    assistantLine({ type: 'thinking', thinking: 'Hm.' }),
    assistantLine(
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'ls' } },
    ),
    userLine({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'x.ts' }] }),
    assistantLine({ type: 'text', text: 'Done.' }),
  )
  expect(build(output)).toEqual({
    schema_version: 'ATIF-v1.7',
    agent: { name: 'claude-code', version: claudeCode.version, model_name: 'm' },
    steps: [
      { step_id: 1, source: 'user', message: 'Do it.' },
      {
        step_id: 2,
        source: 'agent',
        message: 'I look.',
        reasoning_content: 'Hm.',
        tool_calls: [{ tool_call_id: 'a', function_name: 'Bash', arguments: { command: 'ls' } }],
        observation: { results: [{ source_call_id: 'a', content: 'x.ts' }] },
      },
      { step_id: 3, source: 'agent', message: 'Done.' },
    ],
  })
})

test.each([
  ['empty output', ''],
  ['invalid JSON', 'warning: {\n{"type":\n}{'],
  ['unknown JSON', '{}\n[1]\nnull\n{"type":"assistant"}\n{"type":"assistant","message":{"content":"x"}}'],
  ['a result without a call', lines(userLine({ type: 'tool_result', tool_use_id: 'z', content: 'x' }))],
  ['deeply nested JSON', `{"type":"assistant","message":{"content":${'['.repeat(200_000)}`],
])('returns no trajectory for %s', (_name, output) => {
  for (const harness of harnesses)
    expect(buildTrajectory(harness, { instruction: '', output, model: undefined })).toBeUndefined()
})

test('caps long messages and the number of steps', () => {
  const long = build(
    lines(assistantLine({ type: 'text', text: 'x'.repeat(500_000) }), assistantLine({ type: 'text', text: 'y' })),
  )
  expect(long?.steps[1]?.message.length).toBeLessThan(100_100)
  const step = (n: number) => [
    assistantLine({ type: 'tool_use', id: `${n}`, name: 'Bash', input: {} }),
    userLine({ type: 'tool_result', tool_use_id: `${n}`, content: '' }),
  ]
  const many = build(lines(...Array.from({ length: 20_000 }, (_, n) => step(n)).flat()))
  expect(many?.steps).toHaveLength(10_000)
  expect(many?.notes).toBeTruthy()
})

test('replaces lone surrogates', () => {
  const output = '{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud83d"}]}}'
  expect(build(output)?.steps[1]?.message.isWellFormed()).toBe(true)
})
