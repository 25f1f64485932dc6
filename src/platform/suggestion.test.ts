import { expect, test } from 'vitest'
import { suggestName } from './suggestion.ts'

const NAMES = ['oracle', 'nop', 'claude-code', 'codex', 'gemini-cli', 'mini']

test.each([
  ['orcale', 'oracle'],
  ['Claude-Code', 'claude-code'],
  ['claudecode', 'claude-code'],
  ['codx', 'codex'],
  ['mni', 'mini'],
])('%s most likely means %s', (name, meant) => {
  expect(suggestName(name, NAMES)).toBe(` Did you mean ${meant}?`)
})

test.each(['', 'kubernetes', 'x'.repeat(1000), 'zzz'])('suggests nothing for %s', (name) => {
  expect(suggestName(name, NAMES)).toBe('')
})

test('suggests nothing without names', () => {
  expect(suggestName('oracle', [])).toBe('')
})
