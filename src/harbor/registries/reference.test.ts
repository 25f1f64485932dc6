import { expect, test } from 'vitest'
import { formatRef, parseReference } from './registry.ts'

const DIGEST = `sha256:${'0a'.repeat(32)}`

test.each([
  ['lab/d', 'tag', 'latest'],
  ['lab/d@', 'tag', 'latest'],
  ['lab/d@latest', 'tag', 'latest'],
  ['lab/d@v1', 'tag', 'v1'],
  ['lab/d@4.0.0', 'tag', '4.0.0'],
  ['lab/d@3', 'revision', '3'],
  ['lab/d@007', 'revision', '7'],
  [`lab/d@${DIGEST}`, 'digest', DIGEST],
  ['Lab-1.x/D_2@v1', 'tag', 'v1'],
])('parses %s as a %s', (text, kind, ref) => {
  const read = parseReference(text)
  if ('refused' in read) throw new Error(read.refused)
  expect([read.ref.kind, formatRef(read.ref)]).toEqual([kind, ref])
})

test.each([
  'lab',
  '',
  '/',
  'lab/',
  '/d',
  'lab/d/e',
  '../d',
  'lab/..',
  'lab/a..b',
  '.lab/d',
  'lab/d e',
  'lab/d@a@v1',
  'lab/d@99999999999',
  'lab/d@sha256:abc',
  `lab/d@${DIGEST.toUpperCase()}`,
  'lab/d@sha256:',
  'lab/d@v1/../x',
  'lab/d@v1&limit=1',
  'lab/d\n',
  `${'x'.repeat(101)}/d`,
  'lab/d@\u202Ev1',
])('%j is refused', (text) => {
  expect(parseReference(text)).toMatchObject({ refused: expect.stringMatching(/^[^\p{C}]+\.$/u) })
})

test('tells how to write a reference without organisation', () => {
  expect(parseReference('swe-fixture@1.0')).toEqual({
    refused: 'Write the dataset as org/name: swe-fixture@1.0 has no slash.',
  })
})
