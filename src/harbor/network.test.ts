import { expect, test } from 'vitest'
import { allowedHost } from './network.ts'

test.each([
  ['example.com', 'example.com'],
  [' EXAMPLE.com. ', 'example.com'],
  ['*.example.com', '*.example.com'],
  ['localhost', 'localhost'],
  ['1.2.3.4', '1.2.3.4'],
  ['::1', '::1'],
  ['2001:DB8:0:0::1', '2001:db8::1'],
  ['::FFFF:1.2.3.4', '::ffff:102:304'],
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['1.2.3.4/32', '1.2.3.4/32'],
  ['2001:db8::/32', '2001:db8::/32'],
])('%j is %j', (text, host) => {
  expect(allowedHost(text)).toBe(host)
})

test.each([
  '',
  '.',
  '*',
  '*.',
  '*.1.2.3.4',
  'a*b',
  'http://a',
  'a:80',
  '[::1]',
  'a_b',
  '-a',
  'a-',
  'a..b',
  'fe80::1%eth0',
  '10.1.0.0/8',
  '10.0.0.0/33',
  '1.2.3.4/',
  '10.0.0.0/8/8',
  'a/8',
  'é.example',
  'a'.repeat(64),
  `${'a.'.repeat(200)}a`,
])('%j is no host', (text) => {
  expect(allowedHost(text)).toBeUndefined()
})
