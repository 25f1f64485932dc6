import { expect, test } from 'vitest'
import type { JsonObject } from '../harnesses/json.ts'
import { type DigestedRequest, digestConversation, openInputMemory } from './input-memory.ts'

const MEMBERS = { turns: 'messages', instructions: 'system' }
const turn = (text: string, more: JsonObject = {}): JsonObject => ({
  role: 'user',
  content: [{ type: 'text', text, ...more }],
})
const FIRST = { model: 'm', system: [{ type: 'text', text: 'Be kind.' }], messages: [turn('x'.repeat(8_000))] }

const toRequest = (body: JsonObject, scope = ''): DigestedRequest => ({
  bytes: Buffer.byteLength(JSON.stringify(body)),
  digest: digestConversation(body, MEMBERS, scope),
})

/** Returns the bound of a request after the provider has counted 2,000 tokens for the first one. */
function boundAfterFirst(body: JsonObject, { scope = '', tokens = 2_000 } = {}): number {
  const memory = openInputMemory()
  memory.learn('grant', toRequest(FIRST), tokens)
  return memory.bound('grant', toRequest(body, scope))
}

test('counts tokens by bytes, and only the added turns of a known conversation', () => {
  const memory = openInputMemory()
  expect(memory.bound('grant', toRequest(FIRST))).toBe(toRequest(FIRST).bytes)
  memory.learn('grant', toRequest(FIRST), 2_000)
  const added = turn('and now')
  const grown = { ...FIRST, max_tokens: 300, stream: true, messages: [...FIRST.messages, added] }
  expect(memory.bound('grant', toRequest(grown))).toBe(2_000 + JSON.stringify(added).length + 64)
  expect(memory.bound('other grant', toRequest(grown))).toBe(toRequest(grown).bytes)
})

test('counts changed instructions, and marks of the cache that moved', () => {
  const instruction = { type: 'text', text: 'Be brief.' }
  expect(boundAfterFirst({ ...FIRST, system: [instruction] })).toBe(2_064 + JSON.stringify(instruction).length)
  const mark = { cache_control: { type: 'ephemeral' } }
  const marked = { ...FIRST, messages: [turn('x'.repeat(8_000), mark), turn('more')] }
  expect(boundAfterFirst(marked)).toBe(2_064 + JSON.stringify(mark).length - 1 + JSON.stringify(turn('more')).length)
})

test.each<[string, JsonObject, string?]>([
  ['a turn that has another content', { ...FIRST, messages: [turn('y'.repeat(8_000))] }],
  ['a turn whose text has another name', { ...FIRST, messages: [{ role: 'user', other: 'x'.repeat(8_000) }] }],
  ['other settings', { ...FIRST, context_management: { edits: [] } }],
  ['other tools', { ...FIRST, tools: [{ name: 'a', defer_loading: false }] }],
  ['other features of the protocol', FIRST, 'context-management'],
  ['instructions that are one text', { ...FIRST, system: 'Be kind.' }],
  ['turns that are no list', { ...FIRST, messages: 'x'.repeat(8_000) }],
])('counts every byte of a request with %s', (_, body, scope) => {
  expect(boundAfterFirst(body, { scope: scope ?? '' })).toBe(toRequest(body).bytes)
})

test('counts every byte of a request that leaves out a turn', () => {
  const memory = openInputMemory()
  const second = { ...FIRST, messages: [...FIRST.messages, turn('x'.repeat(4_000))] }
  memory.learn('grant', toRequest(second), 3_000)
  expect(memory.bound('grant', toRequest(FIRST))).toBe(toRequest(FIRST).bytes)
})

test('learns nothing from a request that the provider mostly ignored', () => {
  expect(boundAfterFirst(FIRST, { tokens: 1_000 })).toBe(toRequest(FIRST).bytes)
})

test('bounds the memory', () => {
  const memory = openInputMemory()
  memory.learn('first', toRequest(FIRST), 2_000)
  for (let grant = 0; grant < 1000; grant += 1) memory.learn(`grant ${grant}`, toRequest(FIRST), 2_000)
  expect(memory.bound('first', toRequest(FIRST))).toBe(toRequest(FIRST).bytes)
  expect(memory.bound('grant 999', toRequest(FIRST))).toBe(2_064)
})
