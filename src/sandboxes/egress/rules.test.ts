import { expect, test } from 'vitest'
import { coversHost } from '../../platform/outbound/url-rules.ts'
import { decideEgress, parseAllowedHost, parseConnectTarget } from './rules.ts'

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
  expect(coversHost(entry, host)).toBe(covered)
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
  expect(parseConnectTarget(authority)).toEqual(target)
})

test.each([
  ['Builds.example', { host: 'builds.example', port: null }],
  ['builds.example:3141', { host: 'builds.example', port: 3141 }],
  ['*.builds.example', { host: '*.builds.example', port: null }],
  ['10.0.0.7', { host: '10.0.0.7', port: null }],
  ['10.0.0.7:8080', { host: '10.0.0.7', port: 8080 }],
  ['10.0.0.0/24', { host: '10.0.0.0/24', port: null }],
  ['fd00:0::7', { host: 'fd00::7', port: null }],
  ['[fd00::7]:8080', { host: 'fd00::7', port: 8080 }],
  ['10.0.0.0/33', undefined],
  ['http://builds.example', undefined],
  ['', undefined],
])('the operator writes %j: %j', (text, place) => {
  expect(parseAllowedHost(text)).toEqual(place)
})

const NAMES: Record<string, string> = { 'builds.internal': '10.0.0.7', 'inside.example': '10.0.0.7' }

test.each([
  ['', 'inside.example:80', 'address_not_public'],
  ['', 'builds.internal:80', 'host_not_public'],
  ['builds.internal', 'builds.internal:443', 'open'],
  ['builds.internal', 'builds.internal:3141', 'port_not_allowed'],
  ['builds.internal:3141', 'builds.internal:3141', 'open'],
  ['builds.internal:3141', 'builds.internal:443', 'host_not_public'],
  ['builds.internal:3141', '93.184.216.34:3141', 'address_not_public'],
  ['10.0.0.7', '10.0.0.7:80', 'open'],
  ['10.0.0.0/24', 'inside.example:443', 'open'],
  ['10.0.0.0/24', '10.0.1.7:443', 'host_not_public'],
  ['10.0.0.0/24', '169.254.169.254:80', 'host_not_public'],
])('where the operator lists %j, a build that asks for %s: %s', async (listed, asked, answer) => {
  const allowedHosts = listed.split(',').flatMap((text) => parseAllowedHost(text) ?? [])
  const resolve = async (host: string) => [NAMES[host] ?? '']
  const target = parseConnectTarget(asked)
  const found =
    target && (await decideEgress({ network: { mode: 'public', hosts: [] }, allowedHosts, resolve }, target))
  expect(found?.kind === 'refused' ? found.reason : found?.kind).toBe(answer)
})
