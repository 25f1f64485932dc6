import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readEvents } from './usage-tap.ts'

function eventsIn(chunks: Uint8Array[], charsMax?: number): string[] {
  const found: string[] = []
  const reader = readEvents((data) => found.push(data), charsMax)
  for (const chunk of chunks) reader.push(chunk)
  reader.end()
  return found
}

const cutAt = (bytes: Buffer, places: number[]): Buffer[] => {
  const cuts = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((one, other) => one - other)
  return [0, ...cuts].map((from, at) => bytes.subarray(from, cuts[at] ?? bytes.length))
}

const line = fc.string({ unit: 'binary', maxLength: 20 }).map((text) => text.replaceAll(/[\r\n\uFEFF]/g, ''))

test('finds events wherever chunks are cut, with every kind of line end', () => {
  const property = fc.property(
    fc.array(fc.array(line, { minLength: 1, maxLength: 3 }), { maxLength: 5 }),
    fc.constantFrom('\n', '\r\n', '\r'),
    fc.array(fc.nat(), { maxLength: 20 }),
    (events, end, places) => {
      const text = events.map(
        (lines) => `event: x${end}: ping${end}${lines.map((each) => `data: ${each}${end}`).join('')}${end}`,
      )
      expect(eventsIn(cutAt(Buffer.from(text.join('')), places))).toEqual(
        events.filter((lines) => lines.some((each) => each !== '')).map((lines) => lines.join('\n')),
      )
    },
  )
  fc.assert(property, { numRuns: 1000 })
})

test.each<[string, string[]]>([
  ['data:a\n\ndata:  b\n\n', ['a', ' b']],
  ['data: a\n\ndata: not ended\n', ['a']],
  ['data\n\nid: 1\n\n: only a comment\n\n', []],
  ['\n\n\r\n\n', []],
  ['data:\n\ndata:\ndata:\n\ndata: a\n\n', ['a']],
])('%j', (text, expected) => {
  expect(eventsIn([Buffer.from(text)])).toEqual(expected)
})

test('skips an event that is too long and reads those after it', () => {
  const long = `data: ${'x'.repeat(100)}\n\n`
  const many = `${'data: 12345678\n'.repeat(10)}\n`
  const bytes = Buffer.from(`data: 1\n\n${long}data: 2\n\n${many}data: 3\n\n`)
  for (const size of [1, 7, 1000]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, at * size + size),
    )
    expect(eventsIn(chunks, 50)).toEqual(['1', '2', '3'])
  }
})

test('does not buffer a line without end', () => {
  const found: string[] = []
  const reader = readEvents((data) => found.push(data), 1000)
  for (let count = 0; count < 100_000; count++) reader.push(Buffer.from('data: and so on'))
  reader.push(Buffer.from('\n\ndata: good\n\n'))
  expect(found).toEqual(['good'])
})
