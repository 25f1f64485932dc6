import { execFile } from 'node:child_process'
import { isIPv6 } from 'node:net'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  type Certificate,
  IPV6_LOOPBACK,
  PUBLIC,
  startServer,
  trustedCertificate,
} from '../../../test/support/loopback-servers.ts'
import { createOutbound, type OutboundInit, OutboundRefused } from './outbound.ts'
import { createPinnedAgent } from './pinned-connections.ts'

const NAMES = ['api.example.com', 'other.example.com', 'localhost']
let tls: Certificate
beforeAll(async () => {
  tls = await trustedCertificate(NAMES)
})

const hello = (_: unknown, response: { end(text: string): void }) => response.end('hello')
const client: OutboundInit = { trust: 'client' }
const operator: OutboundInit = { trust: 'operator' }

describe('a URL from a client never reaches this machine', () => {
  test.each([
    '127.1',
    '2130706433',
    '0x7f.1',
    '0x7f000001',
    '017700000001',
    '0177.0.0.1',
    '①②⑦.⓪.⓪.①',
    '１２７。０。０。１',
    '127%2E0%2E0%2E1',
    '127.0.0.1.',
    '0',
    '0.0.0.0',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[2002:7f00:1::]',
    'user@127.0.0.1',
    'example.com@127.0.0.1',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'api.localhost',
    '169.254.169.254',
    '[fd00:ec2::254]',
    '100.100.100.200',
    'metadata.google.internal',
  ])('%s', async (host) => {
    await using here = await startServer(hello, { tls })
    await using stack = new AsyncDisposableStack()
    const also = IPV6_LOOPBACK.map(async (ipv6) =>
      stack.use(await startServer(hello, { tls, host: ipv6, port: here.port })),
    )
    const servers = [here, ...(await Promise.all(also))]

    for (const scheme of ['https', 'http']) {
      const request = createOutbound().fetch(`${scheme}://${host}:${here.port}/`, client)
      await expect(request).rejects.toThrow(OutboundRefused)
    }

    expect(servers.flatMap(({ connections }) => connections)).toEqual([])
  })

  test.each([
    'file:///etc/passwd',
    'gopher://127.0.0.1:6379/_INFO',
    'data:text/plain,hello',
    'blob:nodedata:1',
    'ftp://127.0.0.1/',
    'about:blank',
    '/etc/passwd',
  ])('%s', async (url) => {
    await expect(createOutbound().fetch(url, client)).rejects.toThrow(OutboundRefused)
  })

  test.each([
    ['a name that leads to loopback', ['127.0.0.1']],
    ['public and loopback mixed', [PUBLIC, '127.0.0.1']],
    ['loopback last, as IPv6', [PUBLIC, '2606:4700:4700::1111', '::1']],
    ['mapped', ['::ffff:127.0.0.1']],
    ['not even an address', ['127.0.0.1.nip.io']],
  ])('%s', async (_, addresses) => {
    await using here = await startServer(hello, { tls })
    const { fetch } = createOutbound({ resolve: async () => addresses })

    const request = fetch(`https://127.0.0.1.nip.io:${here.port}/`, client)

    await expect(request).rejects.toMatchObject({ reason: 'address_not_public' })
    expect(here.connections).toEqual([])
  })

  test('a backslash cannot make two parsers see two hosts', async () => {
    await using here = await startServer(hello, { tls })
    const asked: string[] = []
    const resolve = async (host: string) => {
      asked.push(host)
      return ['10.0.0.1']
    }

    const request = createOutbound({ resolve }).fetch(`https://example.com\\@127.0.0.1:${here.port}/`, client)

    await expect(request).rejects.toMatchObject({ reason: 'address_not_public' })
    expect(asked).toEqual(['example.com'])
    expect(here.connections).toEqual([])
  })
})

describe('the address that was checked is the address that is used', () => {
  test('resolves a name once; when it moves to loopback, the next request is refused', async () => {
    await using far = await startServer(hello, { tls })
    await using here = await startServer(hello, { tls })
    const answers = [[PUBLIC], ['127.0.0.1']]
    const dialled: (readonly string[])[] = []
    const { fetch } = createOutbound({
      resolve: async () => answers.shift() ?? [],
      agentFor: (addresses) => {
        dialled.push(addresses)
        return createPinnedAgent(['127.0.0.1']) // stands for the way from the public address to the server `far`
      },
    })

    const first = await fetch(`https://api.example.com:${far.port}/`, client)
    const second = fetch(`https://api.example.com:${here.port}/`, client)

    expect(await first.text()).toBe('hello')
    await expect(second).rejects.toMatchObject({ reason: 'address_not_public' })
    expect(dialled).toEqual([[PUBLIC]])
    expect(here.connections).toEqual([])
  })

  test('the connection goes to the resolved address; TLS and Host keep the name', async () => {
    await using server = await startServer(hello, { tls })
    // Nobody else could resolve this name to 127.0.0.1, so only the pin can have led here.
    const { fetch } = createOutbound({ resolve: async () => ['127.0.0.1'] })

    const answer = await fetch(`https://api.example.com:${server.port}/v1`, {
      trust: 'operator',
      headers: { host: 'other.example.com' },
    })

    expect(await answer.text()).toBe('hello')
    expect(server.requests).toMatchObject([
      { path: '/v1', serverName: 'api.example.com', headers: { host: `api.example.com:${server.port}` } },
    ])
  })

  test('requires a certificate for the name', async () => {
    await using server = await startServer(hello, { tls })
    const { fetch } = createOutbound({ resolve: async () => ['127.0.0.1'] })

    const request = fetch(`https://wrong.example.com:${server.port}/`, operator)

    await expect(request).rejects.toThrow('ERR_TLS_CERT_ALTNAME_INVALID')
    expect(server.requests).toEqual([])
  })

  test('connections are reused', async () => {
    await using server = await startServer(hello, { tls })
    const { fetch } = createOutbound({ resolve: async () => ['127.0.0.1'] })

    for (const path of Array(20).keys()) {
      const answer = await fetch(`https://api.example.com:${server.port}/${path}`, operator)
      await answer.text()
    }

    expect(server.requests).toHaveLength(20)
    expect(server.connections.length).toBeLessThan(4) // a second one opens while the first is not yet idle again
  })

  test('tries the next address when one is dead', async () => {
    await using server = await startServer(hello, { tls })
    const { fetch } = createOutbound({ resolve: async () => ['::1', '127.0.0.1'] })

    const answer = await fetch(`https://api.example.com:${server.port}/`, operator)

    expect(await answer.text()).toBe('hello')
  })
})

describe('a URL of the operator', () => {
  test.each(['127.0.0.1', ...IPV6_LOOPBACK])('may be private and http: %s', async (host) => {
    await using server = await startServer(hello, { host })
    const name = isIPv6(host) ? `[${host}]` : host

    const answer = await createOutbound().fetch(`http://${name}:${server.port}/`, operator)

    expect(await answer.text()).toBe('hello')
    expect(server.connections).toHaveLength(1)
  })

  test('ignores proxies of the environment', async () => {
    await using server = await startServer(hello)
    await using proxy = await startServer(hello)
    const proxyUrl = `http://127.0.0.1:${proxy.port}`
    // The plain request shows that Node did read the environment.
    const script = `import { get } from 'node:http'
      import { createOutbound } from ${JSON.stringify(new URL('outbound.ts', import.meta.url).href)}
      const answer = await createOutbound().fetch('http://127.0.0.1:${server.port}/', { trust: 'operator' })
      process.stdout.write(await answer.text())
      get('http://127.0.0.1:${server.port}/by-proxy', (plain) => plain.resume())`
    const env = { ...process.env, NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxyUrl, HTTPS_PROXY: proxyUrl, NO_PROXY: '' }

    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env })

    expect(stdout).toBe('hello')
    expect(server.connections).toHaveLength(1)
    expect(proxy.requests.map(({ path }) => path)).toEqual([expect.stringContaining('/by-proxy')])
  })
})
