import { expect, test } from 'vitest'
import { parseAsciicast, renderScreen } from './asciicast.ts'

const CAST = [
  '{"version":2,"width":120,"height":36}',
  '[0.5,"o","one\\r\\n"]',
  '[1,"o","10 %\\r20 %"]',
  '[60,"o","\\r\\nend"]',
].join('\n')

test('the screen shows what had been written, with pauses shortened to two seconds', () => {
  const recording = parseAsciicast(CAST)
  expect(recording.seconds).toBe(3)
  expect(renderScreen(recording, 0)).toBe('')
  expect(renderScreen(recording, 0.5)).toBe('one\n')
  expect(renderScreen(recording, 1)).toBe('one\n20 %')
  expect(renderScreen(recording, 3)).toBe('one\n20 %\nend')
})

test.each(['', 'no JSON', '{"version":2}\n[1,"o"]\n[]\nnull\n{"a":1}\n["x","o","text"]\n[1,"i","typed"]\n[-1,"o",5]'])(
  'unexpected lines are left out: %j',
  (cast) => {
    expect(parseAsciicast(cast)).toEqual({ text: '', writes: [], seconds: 0 })
  },
)

test('times that go back or are huge neither reorder nor delay the text', () => {
  const recording = parseAsciicast('{}\n[5,"o","a"]\n[1,"o","b"]\n[1e308,"o","c"]')
  expect(recording.writes.map(({ seconds }) => seconds)).toEqual([2, 2, 4])
  expect(renderScreen(recording, 4)).toBe('abc')
})
