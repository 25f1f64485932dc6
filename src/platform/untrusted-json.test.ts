import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hasDuplicates, measureJson, parseUntrustedJson } from './untrusted-json.ts'

const isDuplicated = (text: string): boolean => hasDuplicates(measureJson(Buffer.from(text)).colons, JSON.parse(text))

test.each<[text: string, colons: number, values: number, depth: number]>([
  ['', 0, 0, 0],
  ['{}', 0, 1, 1],
  ['[1,2,3]', 0, 3, 1],
  ['{"a":1,"b":[2,{"c":3}]}', 3, 5, 3],
  ['":,[{"', 0, 0, 0],
  ['"\\":,"', 0, 0, 0],
  ['"\\\\":1', 1, 0, 0],
  ['"é:":1', 1, 0, 0],
])('%j has %i members, %i values and a depth of %i', (text, colons, values, depth) => {
  expect(measureJson(Buffer.from(text))).toEqual({ colons, values, depth })
})

test.each<[text: string, isDuplicate: boolean]>([
  ['{"model":1,"Model":1}', true],
  ['{"max_tokens":1,"maxTokens":1}', true],
  ['{"max_tokens":1,"MAXTOKENS":1}', true],
  ['{"k":1,"\u212a":1}', true],
  ['{"s":1,"\u017f":1}', true],
  ['{"a":{"b":1,"B":1}}', false],
  ['{"a":[null,1,"x",{"b":null}],"c":{}}', false],
  ['{"a":[[{"b":1,"b":1}]]}', true],
])('%s has duplicate members: %s', (text, isDuplicate) => {
  expect(isDuplicated(text)).toBe(isDuplicate)
})

test('output of JSON.stringify never has duplicate members below the top level', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.boolean(), (value, isIndented) => {
      expect(isDuplicated(JSON.stringify({ value }, null, isIndented ? 2 : 0))).toBe(false)
    }),
  )
})

const nest = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)

test.each<[text: string, isParsed: boolean]>([
  ['[1,2]', true],
  ['not JSON', false],
  [nest(100), true],
  [nest(101), false],
  [`[${'0,'.repeat(499_998)}0]`, true],
  [`[${'0,'.repeat(500_000)}0]`, false],
])('text number %# is parsed only if it is JSON with few and shallow values', (text, isParsed) => {
  expect(parseUntrustedJson(text) !== undefined).toBe(isParsed)
})

test('another maximum number of values can be set', () => {
  expect(parseUntrustedJson('[1,2,3]', { valuesMax: 2 })).toBeUndefined()
  expect(parseUntrustedJson('[1,2,3]', { valuesMax: 3 })).toEqual([1, 2, 3])
})
