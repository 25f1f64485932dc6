import { expect, test } from 'vitest'
import { connectTarget, covers } from './egress-rules.ts'

test.each([
  ['good.example', 'good.example', true],
  ['good.example', 'deep.good.example', false],
  ['good.example', 'notgood.example', false],
  ['*.good.example', 'deep.good.example', true],
  ['*.good.example', 'very.deep.good.example', true],
  ['*.good.example', 'good.example', false],
  ['*.good.example', 'notgood.example', false],
  ['*.34', '93.184.216.34', false],
  ['93.184.216.34', '93.184.216.34', true],
  ['93.184.216.0/24', '93.184.216.34', true],
  ['93.184.216.0/24', '93.184.217.34', false],
  ['93.184.216.0/24', '2606:2800::1', false],
  ['93.184.216.0/24', 'good.example', false],
  ['2606:2800::/32', '2606:2800::1', true],
  ['2606:2800::/32', '2606:2801::1', false],
])('%s covers %s: %s', (entry, host, covered) => {
  expect(covers(entry, host)).toBe(covered)
})

test.each([
  ['good.example:443', { host: 'good.example', port: 443 }],
  ['GOOD.example.:80', { host: 'good.example', port: 80 }],
  ['0x7f.1:443', { host: '127.0.0.1', port: 443 }],
  ['[2606:2800:0:0::1]:443', { host: '2606:2800::1', port: 443 }],
  ['①②⑦.0.0.1:443', { host: '127.0.0.1', port: 443 }],
  ['good.example', undefined],
  ['good.example:', undefined],
  ['good.example:443/path', undefined],
  ['user@good.example:443', undefined],
  ['good.example:99999', undefined],
  ['a b:443', undefined],
  ['%00:443', undefined],
  ['', undefined],
])('CONNECT %j goes to %j', (authority, target) => {
  expect(connectTarget(authority)).toEqual(target)
})
