import { expect, test } from 'vitest'
import { ignoring } from './context.ts'

test.each([
  ['*.md', ['a.md'], ['sub/a.md', 'a.mdx']],
  ['**/*.md', ['a.md', 'x/y/a.md'], ['a.txt']],
  ['node_modules', ['node_modules', 'node_modules/x/y'], ['sub/node_modules', 'node_modules2']],
  ['/abs/', ['abs', 'abs/x'], ['sub/abs']],
  ['a?c', ['abc'], ['ac', 'a/c']],
  ['[ab]x', ['ax', 'bx'], ['cx']],
  ['a.b+(c)', ['a.b+(c)'], ['aXb+(c)', 'a.bb(c)']],
  ['docs\n!docs/kept\n# not.this\n\n', ['docs/x', 'docs'], ['docs/kept', 'docs/kept/deep', 'not.this']],
  ['*\n!src', ['a', 'lib/x'], ['src', 'src/x']],
])('%j leaves out what Docker would', (text, left, kept) => {
  const isIgnored = ignoring(text)
  expect(left.filter((path) => !isIgnored(path))).toEqual([])
  expect(kept.filter(isIgnored)).toEqual([])
})
