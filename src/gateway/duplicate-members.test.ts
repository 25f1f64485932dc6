import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { JsonObject } from '../harnesses/json.ts'
import { measureJson } from '../platform/untrusted-json.ts'
import { hasDuplicates } from './request-body.ts'

const isDuplicated = (text: string): boolean =>
  hasDuplicates(measureJson(Buffer.from(text)).colons, JSON.parse(text) as JsonObject)

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
