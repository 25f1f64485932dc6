import { expect, test } from 'vitest'
import { staysInside } from './collect.ts'

test.each([
  ['w/a', 'file', true],
  ['w/a', 'sub/deep', true],
  ['w/a', './sub//deep', true],
  ['w/sub/a', '../file', true],
  ['w/sub/a', '..', true],
  ['w/a', '.', true],
  ['w/a', '/etc/passwd', false],
  ['w/a', '..', false],
  ['w/a', '../w/file', false],
  ['w/sub/a', '../../etc', false],
  // Up from wherever `link` leads.
  ['w/sub/a', 'link/../x', false],
  // A single link has nothing around it.
  ['w', 'file', false],
  ['w', '../x', false],
  ['w/a', '', false],
])('a link at %s to %j stays inside: %s', (name, link, stays) => {
  expect(staysInside(name, link)).toBe(stays)
})
