import { expect, test } from 'vitest'
import { classifyMutants, percentKilled, renderTables, sumCounts, type TestedMutant } from './report.ts'

const mutant = (file: string, code: string, isKilled: boolean): TestedMutant => ({
  file,
  line: 1,
  lineText: `return ${code}`,
  code,
  replacement: 'false',
  isKilled,
})
const equivalent = (file: string, code: string, lineText?: string) => ({
  file,
  code,
  replacement: 'false',
  reason: 'It is always false.',
  lineText,
})
const MUTANTS = [mutant('a.ts', 'x', true), mutant('a.ts', 'y', false), mutant('b.ts', 'x', false)]

test('an equivalent mutant is neither killed nor a survivor, and only of its own file and line', () => {
  const { counts, survivors, stale } = classifyMutants(['a.ts', 'b.ts'], MUTANTS, [equivalent('a.ts', 'y', 'return')])
  expect(counts.get('a.ts')).toEqual({ mutants: 2, killed: 1, equivalent: 1 })
  expect(counts.get('b.ts')).toEqual({ mutants: 1, killed: 0, equivalent: 0 })
  expect(survivors.map(({ file }) => file)).toEqual(['b.ts'])
  expect(stale).toEqual([])
  expect(classifyMutants(['a.ts'], MUTANTS.slice(0, 2), [equivalent('a.ts', 'y', 'throw')]).survivors).toHaveLength(1)
})

test('an entry for a mutant that was killed or is gone is stale', () => {
  const entries = [equivalent('a.ts', 'x'), equivalent('a.ts', 'gone'), equivalent('not tested.ts', 'x')]
  expect(classifyMutants(['a.ts', 'b.ts'], MUTANTS, entries).stale).toEqual(entries.slice(0, 2))
})

test('the percentage leaves equivalent mutants out', () => {
  expect(percentKilled({ mutants: 21, killed: 19, equivalent: 1 })).toBe(95)
  expect(percentKilled({ mutants: 1, killed: 0, equivalent: 1 })).toBe(100)
})

test('a group has the sum of its files', () => {
  const { counts } = classifyMutants(['a.ts', 'b.ts'], MUTANTS, [])
  expect(sumCounts(['a.ts', 'b.ts'], counts)).toEqual({ mutants: 3, killed: 1, equivalent: 0 })
  const group = { name: 'both', files: ['a.ts', 'b.ts'], tests: [] }
  expect(renderTables([group], counts, [])).toContain('| **both** | 3 | 1 | 0 | 2 | 33.3 % |')
})
