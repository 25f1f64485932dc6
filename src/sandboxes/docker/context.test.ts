import { expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { parseDockerignore } from './context.ts'

test.each([
  ['*.md', ['a.md'], ['sub/a.md', 'a.mdx']],
  ['**/*.md', ['a.md', 'x/y/a.md'], ['a.txt']],
  ['node_modules', ['node_modules', 'node_modules/x/y'], ['sub/node_modules', 'node_modules2']],
  ['/abs/', ['abs', 'abs/x'], ['sub/abs']],
  ['a?c', ['abc'], ['ac', 'a/c']],
  ['[ab]x', ['ax', 'bx'], ['cx']],
  ['[^ab]x', ['cx'], ['ax', '/x']],
  ['[a-c]x', ['ax', 'cx'], ['-x', 'dx']],
  ['[z-a', ['[z-a'], ['z-a', 'a']],
  ['a/**/b', ['a/b', 'a/x/y/b', 'a/b/c'], ['ab', 'a/xb', 'b']],
  ['a/**', ['a/b', 'a/b/c'], ['b']],
  [String.raw`a\*b`, ['a*b'], ['axb']],
  ['a.b+(c)', ['a.b+(c)'], ['aXb+(c)', 'a.bb(c)']],
  ['docs\n!docs/kept\n# not.this\n\n', ['docs/x', 'docs'], ['docs/kept', 'docs/kept/deep', 'not.this']],
  ['*\n!src', ['a', 'lib/x'], ['src', 'src/x']],
])('%j excludes the same files as Docker', (text, left, kept) => {
  const isIgnored = parseDockerignore(text)
  expect(left.filter((path) => !isIgnored(path))).toEqual([])
  expect(kept.filter(isIgnored)).toEqual([])
})

test.each([
  ['*a'.repeat(40), 'a'.repeat(200)],
  ['**/'.repeat(40), 'a/'.repeat(100)],
  ['**'.repeat(40), 'a/'.repeat(100)],
  ['[z-a]', 'a'],
])('%s is held against a path in no time', async (pattern, path) => {
  expect(await cpuMs(() => parseDockerignore(`${pattern}x`)(`${path}y`))).toBeLessThan(200)
})

test('parses brackets that do not end in linear time', async () => {
  expect(await cpuMs(() => parseDockerignore('['.repeat(64_000))('a'))).toBeLessThan(400)
})
