import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { watchLoop } from '../../../test/support/loop-delay.ts'
import { refuseExcessiveJson } from './input.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const post = (path: string, body: string) =>
  app.fetch(path, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${app.adminKey}` },
  })

const KEYS = '/api/orgs/local/keys'
const nested = (depth: number): string => `{"name":${'['.repeat(depth)}${']'.repeat(depth)}}`

test('a body for an operation without a key has at most 16 KiB', async () => {
  expect((await post('/api/session', nested(8000))).status).toBe(400)
  expect((await post('/api/session', nested(9000))).status).toBe(413)
})

test.each([
  ['nested a million deep', nested(1_000_000)],
  ['nested without an end', '['.repeat(2_000_000)],
  ['made of 700,000 lists', `{"name":[${Array.from({ length: 699_000 }, () => '[]').join()}]}`],
  ['made of 100,000 objects with duplicate keys', `{"name":[${'{"a":1,"a":1},'.repeat(100_000)}1]}`],
  ['made of a million numbers', `{"name":[${'1,'.repeat(1_000_000)}1]}`],
])('a body that is %s is refused before it is parsed', async (_, body) => {
  const loop = watchLoop()
  const { status, body: problem } = await post(KEYS, body)
  expect({ status, code: problem.code }).toEqual({ status: 400, code: 'malformed_body' })
  expect(loop.percentile(1)).toBeLessThan(200)
})

test.each([
  ['{"name":"a","permission":"read","name":"b"}', '/name'],
  ['{"name":"a","n\\u0061me":"b"}', '/name'],
  ['{"name":[1,{"a":{}},{"x/y~":{"b":1 , "b" :2}}]}', '/name/2/x~1y~0/b'],
  ['{"":1,"":2}', '/'],
])('a body with a duplicate key is refused at its pointer: %s', async (body, pointer) => {
  const { status, body: problem } = await post(KEYS, body)
  expect({ status, code: problem.code }).toEqual({ status: 400, code: 'malformed_body' })
  expect(problem.errors).toMatchObject([{ pointer, code: 'duplicate_key' }])
})

test('equal keys of different objects and equal strings are accepted', async () => {
  const { body: problem } = await post(KEYS, '{"name":[{"a":"a","b":["a","a"]},{"a":{"a":"\\""}}],"a":{"a":1}}')
  expect(problem.code).toBe('invalid_request')
})

test('no JSON without duplicate keys is refused', () => {
  const property = fc.property(fc.json({ maxDepth: 6 }), (json) => {
    expect(() => refuseExcessiveJson(Buffer.from(json))).not.toThrow()
  })
  fc.assert(property, { numRuns: 300 })
})

test('brackets and commas in a string do not count', async () => {
  const name = '\\"[{,'.repeat(100_000)
  const { status, body: problem } = await post(KEYS, `{"name":"${name}"}`)
  expect([status, problem.code]).toEqual([422, 'invalid_request'])
})
