import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { MARKS } from '../../repos/pull-requests/pull-request.ts'
import { REASONS } from './reasons.ts'

const page = readFileSync(new URL('../../../docs/batches.md', import.meta.url), 'utf8')
const rows = (heading: string): string[] =>
  [...(page.split(`| ${heading} |`)[1]?.split('\n\n')[0] ?? '').matchAll(/^\| `([\w-]+)`/gm)].map(
    ([, name = '']) => name,
  )

test('docs/batches.md lists every reason in order, and every mark', () => {
  expect(rows('reason')).toEqual(Object.keys(REASONS))
  expect(rows('mark').toSorted()).toEqual([...MARKS].toSorted())
})
