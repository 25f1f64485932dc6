import { expect, test } from 'vitest'
import { openInputMemory } from './reservation.ts'

const line = (index: number): string => `${index} the quick brown fox jumps over the lazy dog\n`
const text = (lines: number, from = 0): Buffer =>
  Buffer.from(Array.from({ length: lines }, (_, index) => line(from + index)).join(''))

test('bounds tokens by bytes, and with a known beginning by the new bytes', () => {
  const memory = openInputMemory()
  const first = text(1000)
  const { tokens, digest } = memory.bound('a', first)
  memory.learn('a', digest, 12_000)
  const grown = Buffer.concat([first, text(20, 5000)])

  expect(tokens).toBe(first.length)
  const { tokens: bound } = memory.bound('a', grown)
  expect(bound).toBeGreaterThanOrEqual(12_000 + grown.length - first.length)
  expect(bound).toBeLessThan(12_000 + grown.length - first.length + 2000)
  expect(memory.bound('b', grown).tokens).toBe(grown.length)
})

test('text in front of a known end counts as new, and so does every change', () => {
  const memory = openInputMemory()
  const first = text(1000)
  memory.learn('a', memory.bound('a', first).digest, 12_000)
  const between = Buffer.concat([first.subarray(0, 20_000), text(20, 7000), first.subarray(20_000)])
  expect(memory.bound('a', between).tokens).toBeLessThan(12_000 + between.length - first.length + 4000)
  const other = Buffer.from(first.map((byte) => byte ^ 1))
  expect(memory.bound('a', other).tokens).toBe(other.length)
})

test('learns nothing from a body that the provider mostly ignored', () => {
  const memory = openInputMemory()
  const first = text(1000)
  memory.learn('a', memory.bound('a', first).digest, Math.floor(first.length / 7))
  expect(memory.bound('a', first).tokens).toBe(first.length)
})

test('bounds the memory', () => {
  const memory = openInputMemory()
  const body = text(200)
  const { digest } = memory.bound('first', body)
  memory.learn('first', digest, 2500)
  for (let grant = 0; grant < 1000; grant += 1) memory.learn(`grant ${grant}`, digest, 2500)
  expect(memory.bound('first', body).tokens).toBe(body.length)
  expect(memory.bound('grant 999', body).tokens).toBeLessThan(body.length)
})
