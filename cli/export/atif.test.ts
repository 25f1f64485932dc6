import { expect, test } from 'vitest'
import { parseAtifSteps } from './atif.ts'

test('steps without a message and results without content are kept', () => {
  const steps = [
    { source: 'user', message: 'Solve it.' },
    { source: 'agent', tool_calls: [{ tool_call_id: 'a', function_name: 'shell', arguments: {} }] },
    { source: 'agent', message: 'Done.', observation: { results: [{ source_call_id: 'a' }] } },
  ]
  expect(parseAtifSteps(JSON.stringify({ steps }))).toMatchObject(steps)
})

test.each(['', 'null', '{}', '{"steps": 1}', '{"steps": [1]}'])('%j is no trajectory', (text) => {
  expect(parseAtifSteps(text)).toEqual([])
})
