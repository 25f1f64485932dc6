import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countsOf, hasDuplicates } from './duplicates.ts'
import type { JsonObject } from './wire.ts'

const isDuplicated = (text: string): boolean =>
  hasDuplicates(countsOf(Buffer.from(text)).colons, JSON.parse(text) as JsonObject)

test.each<[text: string, colons: number, values: number, depth: number]>([
  ['', 0, 0, 0],
  ['{}', 0, 1, 1],
  ['[1,2,3]', 0, 3, 1],
  ['{"a":1,"b":[2,{"c":3}]}', 3, 5, 3],
  ['":,[{"', 0, 0, 0],
  ['"\\":,"', 0, 0, 0],
  ['"\\\\":1', 1, 0, 0],
  ['"é:":1', 1, 0, 0],
])(
  'outside of its strings %j has %i colons, %i beginnings of values and a depth of %i',
  (text, colons, values, depth) => {
    expect(countsOf(Buffer.from(text))).toEqual({ colons, values, depth })
  },
)

test.each<[text: string, isDuplicate: boolean]>([
  ['{"model":1,"Model":1}', true],
  ['{"max_tokens":1,"maxTokens":1}', true],
  ['{"max_tokens":1,"MAXTOKENS":1}', true],
  ['{"k":1,"\u212a":1}', true],
  ['{"s":1,"\u017f":1}', true],
  ['{"a":{"b":1,"B":1}}', false],
  ['{"a":[null,1,"x",{"b":null}],"c":{}}', false],
  ['{"a":[[{"b":1,"b":1}]]}', true],
])('%s has two members of one name: %s', (text, isDuplicate) => {
  expect(isDuplicated(text)).toBe(isDuplicate)
})

test('what JSON.stringify writes below the top level never has two members of one name', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.boolean(), (value, isIndented) => {
      expect(isDuplicated(JSON.stringify({ value }, null, isIndented ? 2 : 0))).toBe(false)
    }),
  )
})
