import { describe, expect, test } from 'vitest'
import { PUBLIC, startServer } from '../../../test/support/loopback-servers.ts'
import { parseAddressRange } from '../http/client-address.ts'
import { createOpenStream } from './open-stream.ts'
import { createOutbound, findUrlRefusal } from './outbound.ts'
import { isInNetworks } from './url-rules.ts'

const networks = (...ranges: string[]) => ({ networks: ranges.flatMap((range) => parseAddressRange(range) ?? []) })
const LOOPBACK = networks('127.0.0.0/8', '::1')
const EVERYTHING = networks('0.0.0.0/0', '::/0')

const hello = (_: unknown, response: { end(text: string): void }) => response.end('hello')
const read = (url: string, resolve?: (host: string) => Promise<string[]>, trust = LOOPBACK) =>
  createOpenStream(resolve ? { resolve } : {})(url, {
    trust,
    method: 'GET',
    headers: {},
    body: null,
    signal: AbortSignal.timeout(5000),
  })

test('a server in an allowed network is reached by address and by name', async () => {
  await using server = await startServer(hello)
  for (const host of ['127.0.0.1', 'localhost'])
    expect((await read(`http://${host}:${server.port}/`, async () => ['127.0.0.1'])).status).toBe(200)
  expect(findUrlRefusal(`http://127.0.0.1:${server.port}/v1`, LOOPBACK)).toBeUndefined()
  expect(findUrlRefusal('https://models.example.com/v1', LOOPBACK)).toBeUndefined()
})

describe('networks of a workspace open nothing else', () => {
  test.each([
    'http://10.0.0.1:8080/',
    'http://192.168.1.1:8080/',
    'http://169.254.169.254/',
    'http://0.0.0.0:8080/',
    'http://[::ffff:127.0.0.1]:8080/',
    'http://[64:ff9b::127.0.0.1]:8080/',
    'http://93.184.216.34:8080/',
    'http://127.0.0.1:22/',
    'http://user@127.0.0.1:8080/',
    'ftp://127.0.0.1:8080/',
    'file:///etc/passwd',
  ])('%s', async (url) => {
    await expect(read(url)).rejects.toMatchObject({ name: 'OutboundRefused' })
  })

  test.each([
    ['another private address', ['10.0.0.7']],
    ['an allowed and another private address', ['127.0.0.1', '10.0.0.7']],
    ['an allowed address and a metadata service', ['127.0.0.1', '169.254.169.254']],
    ['a public address over plain http', [PUBLIC]],
    ['a mapped address', ['::ffff:127.0.0.1']],
  ])('a name that resolves to %s', async (_, addresses) => {
    await using server = await startServer(hello)
    const request = read(`http://models.lan:${server.port}/`, async () => addresses)
    await expect(request).rejects.toMatchObject({ reason: 'address_not_public' })
    expect(server.connections).toEqual([])
  })

  test('a name that changes its address after the check: the checked address is used, the next request is refused', async () => {
    await using server = await startServer(hello)
    const answers = [['127.0.0.1'], ['10.0.0.7']]
    const resolve = async () => answers.shift() ?? []
    expect((await read(`http://models.lan:${server.port}/`, resolve)).status).toBe(200)
    await expect(read(`http://models.lan:${server.port}/`, resolve)).rejects.toMatchObject({
      reason: 'address_not_public',
    })
    expect(server.requests).toHaveLength(1)
  })

  test('a redirect from an allowed server into the allowed network', async () => {
    await using inside = await startServer(hello)
    await using server = await startServer((_, response) =>
      response.writeHead(307, { location: `http://127.0.0.1:${inside.port}/` }).end(),
    )
    const followed = createOutbound().fetch(`http://127.0.0.1:${server.port}/`, { trust: LOOPBACK })
    await expect(followed).rejects.toMatchObject({ name: 'OutboundRefused' })
    expect((await read(`http://127.0.0.1:${server.port}/`)).status).toBe(307)
    expect(inside.connections).toEqual([])
  })
})

test('metadata services, link-local and unspecified addresses are never in a network', () => {
  for (const address of [
    '169.254.169.254',
    '168.63.129.16',
    '100.100.100.200',
    'fd00:ec2::254',
    'fe80::1',
    '0.0.0.0',
    '::',
    '::ffff:127.0.0.1',
    '224.0.0.1',
    '255.255.255.255',
    'localhost',
  ])
    expect(isInNetworks(address, EVERYTHING), address).toBe(false)
  for (const address of ['127.0.0.1', '10.1.2.3', 'fd12::1', '::1'])
    expect(isInNetworks(address, EVERYTHING), address).toBe(true)
  expect(isInNetworks('10.1.2.3', networks('10.1.2.0/24'))).toBe(true)
  expect(isInNetworks('10.1.3.3', networks('10.1.2.0/24'))).toBe(false)
})
