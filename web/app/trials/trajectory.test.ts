import fc from 'fast-check'
import { expect, test } from 'vitest'
import { appendPart, type ParsedTrajectory, parseTrajectory, readTrajectory } from './trajectory.ts'

const STEPS = [
  { source: 'user', message: 'Quotes " \\ and {braces] ] }, "steps": [' },
  {
    source: 'agent',
    reasoning_content: 'Think.',
    tool_calls: [{ function_name: 'shell', arguments: { command: 'ls' } }],
    observation: { results: [{ content: 'ValueError: no' }] },
    metrics: { prompt_tokens: 1, completion_tokens: 2 },
  },
]
const TEXTS = [
  { agent: { name: 'mini', version: '1' }, steps: STEPS, notes: 'n' },
  { steps: [], notes: 'steps' },
  { extra: { steps: [{ message: 'nested' }] }, steps: STEPS },
  { steps: [[STEPS[0]], STEPS[1]] },
  { notes: 'none' },
  [],
].map((value) => JSON.stringify(value))

/** Streams a text in parts that end anywhere, also within a character. */
const toStream = (text: string, ends: readonly number[]): ReadableStream<Uint8Array<ArrayBuffer>> => {
  const bytes = new TextEncoder().encode(text)
  const cuts = [...new Set([0, ...ends.map((end) => end % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b)
  const parts = cuts.slice(1).map((end, index) => bytes.slice(cuts[index], end))
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part)
      controller.close()
    },
  })
}

async function readParts(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<ParsedTrajectory[]> {
  const parts: ParsedTrajectory[] = []
  await readTrajectory(body, async (part) => void parts.push(part))
  return parts
}

test('a trajectory read in any parts is the one that is read at once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...TEXTS), fc.array(fc.nat(), { maxLength: 20 }), async (text, ends) => {
      const parts = await readParts(toStream(text, ends))
      expect(parts.reduce<ParsedTrajectory | undefined>(appendPart, undefined)).toEqual(parseTrajectory(text))
    }),
  )
})

test.each(['', '{"steps":[{]}', '{"steps":[{}', '{"steps":[{}]', 'no', '{"steps":[{}]}}'])(
  'refuses text that is not JSON: %s',
  async (text) => {
    await expect(readParts(toStream(text, [3]))).rejects.toThrow()
  },
)

test('the first events are reported before the rest has arrived', async () => {
  const many = JSON.stringify({ steps: Array.from({ length: 3000 }, () => STEPS[0]) })
  const parts = await readParts(
    toStream(
      many,
      Array.from({ length: 20 }, (_, index) => index * 20_000),
    ),
  )
  expect(parts.flatMap(({ events }) => events)).toHaveLength(3000)
  expect(parts[0]?.events.length).toBeLessThan(1000)
})
