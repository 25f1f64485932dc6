import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import {
  type AddressRange,
  createClientAddressReader,
  parseAddressRange,
  toRateLimitAddress,
} from './client-address.ts'

const ranges = (...texts: string[]): AddressRange[] => texts.flatMap((text) => parseAddressRange(text) ?? [])

function addressOf(trusted: AddressRange[], remoteAddress: string | undefined, forwarded?: string): string {
  const request = { socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }
  return createClientAddressReader(trusted)(request as unknown as IncomingMessage)
}

test('ignores X-Forwarded-For unless the connection comes from a trusted proxy', () => {
  expect(addressOf([], '192.0.2.1', '198.51.100.7')).toBe('192.0.2.1')
  expect(addressOf(ranges('10.0.0.0/8'), '192.0.2.1', '198.51.100.7')).toBe('192.0.2.1')
  expect(addressOf(ranges('10.0.0.0/8'), '10.1.2.3', '198.51.100.7')).toBe('198.51.100.7')
  expect(addressOf(ranges('10.0.0.0/8'), '::ffff:10.1.2.3', '198.51.100.7')).toBe('198.51.100.7')
  expect(addressOf(ranges('fd00::/8'), 'fd12::1', '2001:db8::7')).toBe('2001:db8::7')
})

test('takes the last address that a trusted proxy reported, never one that the client made up', () => {
  const proxies = ranges('10.0.0.0/8', '192.0.2.1')
  expect(addressOf(proxies, '192.0.2.1', '1.1.1.1, 198.51.100.7, 10.0.0.9')).toBe('198.51.100.7')
  expect(addressOf(proxies, '192.0.2.1', '10.0.0.1, 10.0.0.2')).toBe('10.0.0.1')
  expect(addressOf(proxies, '192.0.2.1')).toBe('192.0.2.1')
})

test.each([
  ['198.51.100.7:4711', '198.51.100.7'],
  ['[2001:db8::7]:4711', '2001:db8::7'],
  ['[2001:db8::7]', '2001:db8::7'],
  ['::ffff:198.51.100.7', '198.51.100.7'],
  ['fe80::7%eth0', 'fe80::7'],
  ['unknown', '10.0.0.1'],
  ['_hidden', '10.0.0.1'],
  ['', '10.0.0.1'],
  ['1.1.1.1, junk', '10.0.0.1'],
])('reads the entry %j as %s', (entry, address) => {
  expect(addressOf(ranges('10.0.0.1'), '10.0.0.1', entry)).toBe(address)
})

test('a connection without an address is unknown', () => {
  expect(addressOf(ranges('10.0.0.1'), undefined, '198.51.100.7')).toBe('unknown')
})

test.each(['10.0.0.0/33', '::/129', '10.0.0', 'proxy.example', '10.0.0.1/-1', '', '10.0.0.1/'])(
  'rejects %j as a range of addresses',
  (text) => expect(parseAddressRange(text)).toBeUndefined(),
)

test.each([
  ['198.51.100.7', '198.51.100.7'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:db8:0:0:ffff:ffff:ffff:ffff', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['::1', '0:0:0:0::/64'],
  ['64:ff9b::198.51.100.7', '64:ff9b:0:0::/64'],
  ['unknown', 'unknown'],
])('counts %s as %s for rate limits', (address, group) => expect(toRateLimitAddress(address)).toBe(group))
