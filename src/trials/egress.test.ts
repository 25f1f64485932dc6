import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type LoopbackServer,
  OTHER_PUBLIC,
  PUBLIC,
  startServer,
  waitForHangUp,
} from '../../test/support/loopback-servers.ts'
import { openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { createLocalSubject } from '../../test/support/sandboxes/local-subject.ts'
import type { ProviderUnderTest } from '../../test/support/sandboxes/provider-under-test.ts'
import type { Network } from '../harbor/task.ts'
import type { EgressOptions } from '../sandboxes/egress/egress.ts'
import { openNetwork } from './network.ts'

// Real sandboxes that speak HTTP by hand; the internet is a server of this machine at a public address.

let subject: ProviderUnderTest
let server: LoopbackServer
beforeAll(async () => {
  subject = await createLocalSubject('bwrap')
  server = await startServer((request, response) => answers(request.url ?? '', response))
}, 600_000)
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await subject?.[Symbol.asyncDispose]()
})

function answers(path: string, response: ServerResponse): void {
  if (path === '/never') return
  if (path === '/huge') endless(response)
  else if (path === '/away') response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data/' }).end()
  else response.end(`hello from ${path}`)
}

function endless(response: ServerResponse): void {
  const more = () => void response.write(Buffer.alloc(1e5), (error) => error ?? more())
  more()
}

const NAMES: Record<string, string[]> = {
  'good.example': [PUBLIC],
  'deep.good.example': [PUBLIC],
  'other.example': [OTHER_PUBLIC],
  'inside.example': ['10.0.0.7'],
  'half.example': [PUBLIC, '127.0.0.1'],
  'metadata.example': ['169.254.169.254'],
}

const FUNCTIONS = `
proxy=\${HTTP_PROXY#http://}
open() { exec 3<>"/dev/tcp/\${proxy%:*}/\${proxy#*:}"; }
get() { open && printf 'GET %s HTTP/1.1\\r\\nHost: lie.example\\r\\nConnection: close\\r\\n\\r\\n' "$1" >&3 && cat <&3; }
tunnel() { open && printf 'CONNECT %s HTTP/1.1\\r\\n\\r\\n%s' "$1" "$2" >&3 && cat <&3; }
`
const GET = "$'GET /tunnelled HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n'"

/** Runs a bash command in a sandbox with a network. Also returns the names looked up and the addresses dialled. */
async function inSandbox(network: Network, line: string, limits: Partial<EgressOptions> = {}) {
  const asked: string[] = []
  const dialled: string[] = []
  const egress: EgressOptions = {
    resolve: async (host) => {
      asked.push(host)
      return NAMES[host] ?? []
    },
    dial: async (addresses, port) => {
      dialled.push(`${addresses.join(' ')} ${port}`)
      return arrived(connect(server.port, '127.0.0.1'))
    },
    ...limits,
  }
  const opened = openNetwork(network, { egress })
  await using runner = await openCaseContext(subject)
  const { output } = await runner.run(['bash', '-c', FUNCTIONS + line], { ports: opened.ports, env: opened.env })
  opened.close()
  return { output, asked, dialled, record: opened.summary() }
}

async function arrived(socket: Socket): Promise<Socket> {
  await once(socket, 'connect')
  return socket
}

const OPEN: Network = { mode: 'public', hosts: [] }
const listed = (...hosts: string[]): Network => ({ mode: 'allowlist', hosts })

test('a listed host is reached by plain HTTP and by CONNECT, and the record says so', async () => {
  const { output, record, dialled } = await inSandbox(
    listed('good.example', '*.good.example'),
    `get http://good.example/plain; echo; tunnel good.example:443 ${GET}; echo; get http://deep.good.example/deep`,
  )
  expect(output).toMatch(/^HTTP\/1\.1 200[\s\S]*hello from \/plain/)
  expect(output).toMatch(/200 Connection established\r\n\r\nHTTP\/1\.1 200[\s\S]*hello from \/tunnelled/)
  expect(output).toContain('hello from /deep')
  expect(dialled).toEqual([`${PUBLIC} 80`, `${PUBLIC} 443`, `${PUBLIC} 80`])
  expect(server.requests.at(-3)?.headers.host).toBe('good.example')
  expect(record).toMatchObject({
    asked: 'allowlist',
    given: 'allowlist',
    hosts: ['good.example', '*.good.example'],
    egress: {
      connections: 3,
      bytes: expect.any(Number),
      reached: ['good.example:80', 'good.example:443', 'deep.good.example:80'],
      refused: { count: 0, first: [] },
    },
  })
})

test('a host that is not listed is refused without a DNS lookup', async () => {
  const { output, asked, dialled, record } = await inSandbox(
    listed('good.example', '93.184.216.0/24'),
    `get http://other.example/; tunnel secret-words.evil.example:443; get http://notgood.example/; tunnel ${PUBLIC}:443 ${GET}`,
  )
  expect(output.match(/403 Forbidden/g)).toHaveLength(3)
  expect(output).toContain('hello from /tunnelled')
  expect(asked).toEqual([])
  expect(dialled).toEqual([`${PUBLIC} 443`])
  expect(record.egress?.refused).toEqual({
    count: 3,
    first: [
      { host: 'other.example:80', reason: 'host_not_listed' },
      { host: 'secret-words.evil.example:443', reason: 'host_not_listed' },
      { host: 'notgood.example:80', reason: 'host_not_listed' },
    ],
  })
})

test('mode public reaches any public host, and connects to the address that was checked', async () => {
  const { output, dialled, record } = await inSandbox(
    OPEN,
    `get http://other.example/x; tunnel good.example:443 ${GET}`,
  )
  expect(output).toContain('hello from /x')
  expect(dialled).toEqual([`${OTHER_PUBLIC} 80`, `${PUBLIC} 443`])
  expect(record).toMatchObject({ asked: 'public', given: 'public', egress: { refused: { count: 0 } } })
})

const UNREACHABLE = /^HTTP\/1\.1 502 Bad Gateway/

test.each([
  ['tunnel 169.254.169.254:80', 'host_not_public'],
  ['tunnel 127.0.0.1:443', 'host_not_public'],
  ['tunnel 0x7f.1:443', 'host_not_public'],
  ['tunnel 2130706433:80', 'host_not_public'],
  ['tunnel "[::1]:443"', 'host_not_public'],
  ['tunnel "[::ffff:169.254.169.254]:80"', 'host_not_public'],
  ['tunnel localhost:80', 'host_not_public'],
  ['tunnel metadata.google.internal:80', 'host_not_public'],
  ['tunnel 10.0.0.7:443', 'host_not_public'],
  ['get http://192.168.1.1/', 'host_not_public'],
  ['get http://inside.example/', 'address_not_public'],
  ['get http://metadata.example/', 'address_not_public'],
  ['tunnel half.example:443', 'address_not_public'],
  ['tunnel good.example:22', 'port_not_allowed'],
  ['get http://good.example:8080/', 'port_not_allowed'],
  ['get https://good.example/', 'scheme_not_allowed'],
  ['get ftp://good.example/', 'scheme_not_allowed'],
  ['get /etc/passwd', 'malformed'],
  ['tunnel good.example', 'malformed'],
  ['tunnel user@good.example:443', 'malformed'],
])('%s is refused: %s', async (line, reason) => {
  // Listing a private address does not allow it.
  for (const network of [OPEN, listed('good.example', 'inside.example', 'metadata.example', 'half.example')]) {
    const { output, dialled, record } = await inSandbox(network, line)
    expect(output).toMatch(reason === 'address_not_public' ? UNREACHABLE : /^HTTP\/1\.1 403 Forbidden/)
    expect(dialled).toEqual([])
    expect(record.egress?.refused.count).toBe(1)
    if (network === OPEN) expect(record.egress?.refused.first.map((entry) => entry.reason)).toEqual([reason])
  }
})

test('a redirect to a private address is passed on, and refused when followed', async () => {
  const { output } = await inSandbox(
    OPEN,
    'get http://good.example/away > /tmp/answer; cat /tmp/answer; get "$(sed -n "s/^location: //Ip" /tmp/answer | tr -d "\\r")"',
  )
  expect(output).toMatch(/^HTTP\/1\.1 302 Found[\s\S]*HTTP\/1\.1 403 Forbidden[\s\S]*host_not_public/)
})

test('a name that does not exist is answered like a private one, so that internal names cannot be listed', async () => {
  const { output, record } = await inSandbox(OPEN, 'get http://nobody.example/')
  expect(output).toMatch(UNREACHABLE)
  expect(record.egress).toMatchObject({ connections: 0, refused: { count: 0 } })
  const withoutDate = (text: string) => text.replace(/^Date: .*$/m, '')
  const other = await inSandbox(OPEN, 'get http://inside.example/')
  expect(withoutDate(other.output)).toBe(withoutDate(output))
})

test('an endless body is cut off at the limit, and nothing more is sent', async () => {
  const { output, record } = await inSandbox(
    OPEN,
    'get http://good.example/huge | wc -c; tunnel good.example:443; get http://good.example/more',
    { bytes: 1e6 },
  )
  expect(Number(/^\d+/.exec(output)?.[0])).toBeLessThan(1.2e6)
  expect(output.match(/403 Forbidden/g)).toHaveLength(2)
  expect(record.egress?.refused.first).toEqual([
    { host: 'good.example:443', reason: 'limit' },
    { host: 'good.example:80', reason: 'limit' },
  ])
})

test('an idle connection is closed', async () => {
  const { output } = await inSandbox(
    OPEN,
    'get http://good.example/never; echo first; tunnel good.example:443; echo second',
    { idleMs: 300 },
  )
  expect(output).toMatch(/first\n[\s\S]*second\n$/)
})

test('connections beyond the limit are closed', async () => {
  const { output, record } = await inSandbox(
    OPEN,
    'for n in 1 2 3 4 5 6; do exec {fd}<>"/dev/tcp/127.0.0.1/31280"; done; timeout 5 cat <&$fd; echo over',
    { sockets: 5 },
  )
  expect(output).toBe('over\n')
  expect(record.egress?.refused).toEqual({ count: 1, first: [{ host: '', reason: 'limit' }] })
})

test('invalid requests are counted, and only the first ones are recorded', async () => {
  const { record } = await inSandbox(
    OPEN,
    'for n in $(seq 150); do tunnel "10.0.0.$n:443" > /dev/null; done; tunnel "$(printf "%05000d" 0)$(printf "\\x1b[31m"):443"',
  )
  expect(record.egress?.refused.count).toBeGreaterThanOrEqual(150)
  expect(record.egress?.refused.first).toHaveLength(100)
})

test('connections end with their sandbox, and without a network there is no proxy', async () => {
  const before = server.connections.length
  const { record } = await inSandbox(
    OPEN,
    'tunnel good.example:443 > /tmp/out & until [ -s /tmp/out ]; do sleep 0.05; done',
  )
  expect(record.egress?.reached).toEqual(['good.example:443'])
  await waitForHangUp({ ...server, connections: server.connections.slice(before) })

  for (const mode of ['undeclared', 'no-network'] as const) {
    const closed = await inSandbox({ mode, hosts: [] }, 'env | grep -i proxy; (exec 3<>/dev/tcp/127.0.0.1/31280) 2>&1')
    expect(closed.output).toMatch(/Connection refused/)
    expect(closed.output).not.toMatch(/_proxy=/i)
    expect(closed.record).toEqual({ asked: mode, given: 'none', hosts: [], egress: null })
  }
})
