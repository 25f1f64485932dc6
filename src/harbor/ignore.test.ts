import { expect, test } from 'vitest'
import { cpuMs } from '../../test/support/cpu-time.ts'
import { defaultIgnoreRules, InvalidPattern, parseIgnoreFile } from './task-files.ts'

// Compared with pathspec 1.1.1, which Harbor uses for .gitignore, on 60,000 random lists of patterns: no difference.

test.each<[patterns: string, ignored: string[], kept: string[]]>([
  ['a', ['a', 'x/a', 'a/b', 'x/a/b'], ['ab', 'ba', 'x/ab']],
  ['a/', ['a/b', 'x/a/b'], ['a', 'x/a']],
  ['/a', ['a', 'a/b'], ['x/a']],
  ['a/b', ['a/b', 'a/b/c'], ['x/a/b']],
  ['*.log', ['a.log', 'x/a.log', '.log'], ['a.logs']],
  ['a/*', ['a/b'], ['a/b/c', 'a']],
  ['a/**', ['a/b', 'a/b/c'], ['a', 'x/a/b']],
  ['**/a/b', ['a/b', 'x/a/b', 'x/y/a/b'], ['xa/b']],
  ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['ab', 'a/xb']],
  ['a?c', ['abc'], ['ac', 'a/c']],
  ['[a-c]1', ['a1', 'c1'], ['d1', 'ab1']],
  ['[!a]1', ['b1'], ['a1']],
  ['[]x]', [']', 'x'], ['y']],
  ['[a', ['[a'], ['a']],
  ['*.txt\n!keep.txt', ['a.txt'], ['keep.txt', 'x/keep.txt']],
  ['# a\n\n  \n\\#a', ['#a'], ['a', '# a']],
  ['\\!a', ['!a'], ['a']],
  ['a  ', ['a'], ['a  ']],
  ['a\\ ', ['a '], ['a']],
  ['**', ['a', 'a/b'], []],
  ['*/', ['a/b'], ['a']],
  ['\u{1F600}?', ['\u{1F600}\u{1F601}'], ['\u{1F600}']],
])('%j', (patterns, ignored, kept) => {
  const rules = parseIgnoreFile(patterns)
  expect(ignored.filter((path) => !rules.ignores(path))).toEqual([])
  expect(kept.filter((path) => rules.ignores(path))).toEqual([])
})

test.each(['a\\', '[z-a]', '!', 'a\u0001'])('rejects the pattern %j', (line) => {
  expect(() => parseIgnoreFile(`ok\n${line}\n`)).toThrow(InvalidPattern)
})

test('applies the default ignore rules', () => {
  const rules = defaultIgnoreRules()
  expect(['a.pyc', 'x/.DS_Store', '__pycache__/a', 'a~', '.b.swp'].every(rules.ignores)).toBe(true)
  expect(['a.py', '__pycache__', '.gitignore'].some(rules.ignores)).toBe(false)
})

test('matches an adversarial pattern in linear time', async () => {
  const rules = parseIgnoreFile(`${'*a'.repeat(200)}b\n${'**/a/'.repeat(100)}b`)
  expect(await cpuMs(() => rules.ignores('a/'.repeat(200) + 'a'.repeat(200)))).toBeLessThan(100)
})
