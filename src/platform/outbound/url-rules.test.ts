import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findUrlRefusal } from './outbound.ts'
import { findRedirectRefusal, isPublicAddress } from './url-rules.ts'

describe('addresses', () => {
  test.each(['1.1.1.1', '8.8.8.8', '93.184.216.34', '172.32.0.1', '2606:4700:4700::1111'])(
    '%s is public',
    (address) => {
      expect(isPublicAddress(address)).toBe(true)
    },
  )

  test.each([
    ['loopback', '127.0.0.1', '127.255.255.254', '::1'],
    ['private', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.0.1', 'fc00::1', 'fd00:ec2::254'],
    ['link local, with cloud metadata', '169.254.169.254', 'fe80::1', 'fe80::1%eth0'],
    ['other cloud metadata', '100.100.100.200', '192.0.0.192', '168.63.129.16'],
    ['unspecified, broadcast, multicast', '0.0.0.0', '0.1.2.3', '::', '255.255.255.255', '224.0.0.1', 'ff02::1'],
    ['reserved and documentation', '192.0.2.1', '198.18.0.1', '203.0.113.1', '240.0.0.1', '2001:db8::1', '100::1'],
    ['IPv4 inside IPv6', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '::127.0.0.1', '::ffff:0:7f00:1'],
    ['NAT64, 6to4, Teredo', '64:ff9b::7f00:1', '64:ff9b:1::7f00:1', '2002:7f00:1::', '2001::1'],
    ['outside global space', '4000::1', 'fec0::1', '5f00::1'],
    ['not an address', '', 'example.com', '127.1', '0x7f.1', '1.1.1.1.', '1.1.1.1 '],
  ])('%s is not public', (_, ...addresses) => {
    expect(addresses.filter(isPublicAddress)).toEqual([])
  })
})

describe('URLs that a client gives us', () => {
  test.each([
    'https://example.com',
    'https://example.com:8443/hook?token=1',
    'https://1.1.1.1/',
    'https://[2606:4700:4700::1111]/',
    'https://notlocalhost/',
    'https://xn--mnchen-3ya.example/a%20b/%E2%82%AC',
  ])('%s is accepted', (url) => {
    expect(findUrlRefusal(url, 'client')).toBeUndefined()
  })

  test.each([
    'https://example.com\\@127.0.0.1',
    'https://example.com\\@127.0.0.1:22443/x.git',
    'https:\\\\example.com/',
    'https:/example.com/',
    'https:example.com/',
    'https:////example.com/',
    ' https://example.com/',
    'https://example.com/ ',
    'https://exa\tmple.com/',
    'https://example.com/a\nb',
    'https://example.com/a\0b',
    'https://example.com/a\u0085b',
    'https://example.com/a\u202eb',
    'https://example.com/a b',
    'https://example.com/a\\b',
    'https://example.com/a/../b',
    'https://example.com/%2e%2e/b',
    'https://example.com/ü',
    'https://Example.com/',
    'HTTPS://example.com/',
    'https://example.com:443/',
    'https://example.com:08443/',
    'https://example.com:/',
    'https://@example.com/',
    'https://:@example.com/',
    'https://example.com?x=1',
    'https://example.com./',
    'https://example.com../',
    'https://münchen.example/',
    'https://ｅxample.com/',
    'https://example%2ecom/',
    'https://example。com/',
    'https://1.1/',
    'https://0x01010101/',
    'https://16843009/',
    'https://1.1.1.1./',
    'https://[2606:4700:4700:0:0:0:0:1111]/',
    'https://[2606:4700:4700::1111%25eth0]/',
    'https://*/',
    'https://+example.com/',
    'https://-example.com/',
    'https://a,b.example/',
    'https://a;b.example/',
    'https://a"b.example/',
    'https://$(id).example/',
  ])('%j is refused: it is not its own parsed form', (url) => {
    expect(findUrlRefusal(url, 'client')).toBeOneOf(['not_canonical', 'invalid_url'])
    expect(findUrlRefusal(url, 'operator')).toBeOneOf(['not_canonical', 'invalid_url'])
  })

  test.each([
    ['', 'invalid_url'],
    ['//example.com', 'invalid_url'],
    ['https://', 'invalid_url'],
    ['https://256.1.1.1', 'invalid_url'],
    ['http://example.com', 'scheme_not_allowed'],
    ['ftp://example.com', 'scheme_not_allowed'],
    ['file:///etc/passwd', 'scheme_not_allowed'],
    ['gopher://127.0.0.1:6379/_INFO', 'scheme_not_allowed'],
    ['data:text/plain,hello', 'scheme_not_allowed'],
    ['javascript:alert(1)', 'scheme_not_allowed'],
    ['blob:https://example.com/1', 'scheme_not_allowed'],
    ['unix:/var/run/docker.sock', 'scheme_not_allowed'],
    ['https://user@example.com', 'credentials_in_url'],
    ['https://:secret@example.com', 'credentials_in_url'],
    ['https://user@127.0.0.1', 'credentials_in_url'],
    ['https://example.com:22', 'port_not_allowed'],
    ['https://example.com:80', 'port_not_allowed'],
    ['https://example.com:0', 'port_not_allowed'],
    ['https://localhost', 'host_not_public'],
    ['https://LOCALHOST.', 'host_not_public'],
    ['https://ⓛocalhost', 'host_not_public'],
    ['https://a.localhost', 'host_not_public'],
    ['https://printer.local', 'host_not_public'],
    ['https://metadata.google.internal', 'host_not_public'],
  ])('%s is refused: %s', (url, reason) => {
    expect(findUrlRefusal(url, 'client')).toBe(reason)
  })

  test('refuses every spelling of a private IPv4 address', () => {
    const property = fc.property(privateAddress, spelling, fc.boolean(), (address, spell, dot) => {
      const url = `https://${spell(address)}${dot ? '.' : ''}/`
      expect(new URL(url).hostname).toBe(dotted(address)) // so the spelling is one that the parser understands
      expect(findUrlRefusal(url, 'client')).toBe('host_not_public')
    })
    fc.assert(property, { numRuns: 2_000 })
  })

  test('refuses IPv6 addresses that contain a private IPv4 address', () => {
    const prefix = fc.constantFrom('::ffff:', '::', '::ffff:0:', '64:ff9b::', '64:ff9b:1::', 'fe80::5efe:')
    const property = fc.property(privateAddress, prefix, (address, before) => {
      expect(findUrlRefusal(`https://[${before}${dotted(address)}]/`, 'client')).toBe('host_not_public')
    })
    fc.assert(property, { numRuns: 1_000 })
  })
})

describe('URLs of the operator', () => {
  test.each(['http://127.0.0.1:11434', 'http://localhost:8080', 'https://10.0.0.1:22'])('%s is accepted', (url) => {
    expect(findUrlRefusal(url, 'operator')).toBeUndefined()
  })

  test.each([
    ['file:///etc/passwd', 'scheme_not_allowed'],
    ['http://user:secret@127.0.0.1', 'credentials_in_url'],
  ])('%s is refused: %s', (url, reason) => {
    expect(findUrlRefusal(url, 'operator')).toBe(reason)
  })

  test.each([
    ['http://a.example/', 'http://b.example/', undefined],
    ['http://a.example/', 'https://b.example/', undefined],
    ['https://a.example/', 'http://a.example/', 'redirect_downgrade'],
    ['http://10.0.0.1/', 'http://10.0.0.1/v1/', 'host_not_public'],
    ['http://10.0.0.1/', 'http://b.example:25/', 'port_not_allowed'],
    ['http://10.0.0.1/', 'file:///etc/passwd', 'scheme_not_allowed'],
  ])('a redirect from %s to %s: %s', (from, to, reason) => {
    expect(findRedirectRefusal(new URL(from), new URL(to), 'operator')).toBe(reason)
  })
})

type Bytes = [number, number, number, number]
const byte = fc.integer({ min: 0, max: 255 })
const inRange = (first: number, second = byte): fc.Arbitrary<Bytes> => fc.tuple(fc.constant(first), second, byte, byte)
const privateAddress = fc.oneof(
  inRange(0),
  inRange(10),
  inRange(127),
  inRange(169, fc.constant(254)),
  inRange(172, fc.integer({ min: 16, max: 31 })),
  inRange(192, fc.constant(168)),
  inRange(100, fc.integer({ min: 64, max: 127 })),
)
const dotted = (address: Bytes) => address.join('.')

/** How one part of an address can be written: radix, padding, and letters that normalise to the same digits. */
const number = fc.constantFrom<(value: number) => string>(
  (value) => String(value),
  (value) => `0${value.toString(8)}`,
  (value) => `0000${value.toString(8)}`,
  (value) => `0x${value.toString(16)}`,
  (value) => `0X000${value.toString(16).toUpperCase()}`,
)
const digits = fc.constantFrom<(text: string) => string>(
  (text) => text,
  (text) => text.replace(/[0-9]/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))), // full width
  (text) => text.replace(/[1-9]/g, (digit) => String.fromCodePoint(0x2460 + Number(digit) - 1)).replace(/0/g, '⓪'),
  (text) => text.replace(/[0-9]/g, (digit) => `%3${digit}`),
)
const separator = fc.constantFrom('.', '。', '．', '｡', '%2e', '%2E')

/** One to four parts; the last takes the bytes that remain, as in 127.1. */
const spelling = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.array(number, { minLength: 4, maxLength: 4 }), digits, separator)
  .map(([count, write, draw, point]) => (address: Bytes): string => {
    const rest = address.slice(count - 1).reduce((total, value) => total * 256 + value, 0)
    const values = [...address.slice(0, count - 1), rest]
    return values.map((value, at) => draw(write[at]?.(value) ?? '')).join(point)
  })
