import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createServer as createSocketServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { checkDocker, findEngineError, parseEngineUrl } from './checks.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-engine-'))
  await makeCertificates(folder)
})
afterAll(() => rm(folder, { recursive: true }))

const docker: RequestListener = (request, response) => {
  response.writeHead(request.url === '/_ping' ? 200 : 404).end('OK')
}

const check = (environment: Record<string, string>) =>
  checkDocker({ environment, upstreams: {}, outbound: createOutbound() }, {})

describe('the engine of this server', () => {
  test('is contacted through its socket', async () => {
    const path = join(folder, 'docker.sock')
    await using _ = await listening(createServer(docker), path)
    expect(await check({ DOCKER_HOST: `unix://${path}` })).toEqual({ ok: true, detail: 'The engine responds.' })
  })

  test('is contacted over the network', async () => {
    await using server = await listening(createServer(docker))
    expect(await check({ DOCKER_HOST: `tcp://127.0.0.1:${server.port}` })).toMatchObject({ ok: true })
  })

  test('gets our certificate and must present a trusted one', async () => {
    const [ca, cert, key] = await Promise.all(
      ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFile(join(folder, file))),
    )
    const options = { ca, cert, key, requestCert: true, rejectUnauthorized: true }
    await using server = await listening(createTlsServer(options, docker))
    const environment = { DOCKER_HOST: `tcp://127.0.0.1:${server.port}`, DOCKER_TLS_VERIFY: '1' }
    expect(await check({ ...environment, DOCKER_CERT_PATH: folder })).toMatchObject({ ok: true })
    expect(await check({ ...environment, DOCKER_CERT_PATH: '/nowhere' })).toMatchObject({
      ok: false,
      detail: expect.stringMatching(/is unreachable \((SELF_SIGNED|DEPTH_ZERO|UNABLE_TO)/),
    })
  })

  test('fails the check if it responds with an error', async () => {
    await using server = await listening(createServer((_, response) => response.writeHead(500).end()))
    expect(await check({ DOCKER_HOST: `tcp://127.0.0.1:${server.port}` })).toEqual({
      ok: false,
      detail: 'The engine does not respond: it responded with 500.',
    })
  })

  test.each([
    ['nonsense', 'x'.repeat(100_000)],
    ['nothing', ''],
  ])('that answers %s is not well', async (_, text) => {
    await using server = await listening(
      createSocketServer((socket) =>
        socket
          .on('error', () => {})
          .resume()
          .end(text),
      ),
    )
    expect(await check({ DOCKER_HOST: `tcp://127.0.0.1:${server.port}` })).toMatchObject({
      ok: false,
      detail: 'The engine does not respond: it responded with an invalid answer.',
    })
  })

  test('behind ssh is reported as not checkable', async () => {
    expect((await check({ DOCKER_HOST: 'ssh://engine' })).detail).toMatch(/cannot be checked/)
  })
})

describe('an engine of a client', () => {
  test.each([[['127.0.0.1']], [['93.184.216.34', '10.0.0.1']], [['::ffff:127.0.0.1']]])(
    'whose name leads to %j is not dialled',
    async (addresses) => {
      await using server = await listening(createServer(docker))
      const url = parseEngineUrl(`tcp://engine.example.com:${server.port}`) ?? new URL('https://none')
      const trouble = await findEngineError({ url, tls: undefined, publicOnly: true }, async () => addresses)
      expect(trouble).toBe('the host does not resolve to public addresses only')
      expect(server.connections()).toBe(0)
    },
  )

  test('with an unresolvable name is not looked for on this machine', async () => {
    await using server = await listening(createServer(docker))
    const url = parseEngineUrl(`tcp://engine.example.com:${server.port}`) ?? new URL('https://none')
    const trouble = await findEngineError({ url, tls: undefined, publicOnly: true }, async () => [])
    expect(trouble).toBe('the host does not resolve to public addresses only')
    const unknown = () => Promise.reject(new Error('ENOTFOUND'))
    expect(await findEngineError({ url, tls: undefined, publicOnly: true }, unknown)).toBe(trouble)
    expect(server.connections()).toBe(0)
  })

  test('is contacted at the resolved address under its name', async () => {
    const [ca, cert, key] = await Promise.all(
      ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFile(join(folder, file), 'utf8')),
    )
    await using server = await listening(createTlsServer({ cert, key }, docker))
    const dial = (name: string) => {
      const url = parseEngineUrl(`tcp://${name}:${server.port}`) ?? new URL('https://none')
      return findEngineError({ url, tls: { ca: ca ?? '' }, publicOnly: false }, async () => ['127.0.0.1'])
    }
    expect(await dial('engine.example.com')).toBeUndefined()
    expect(await dial('other.example.com')).toBe('it is unreachable (ERR_TLS_CERT_ALTNAME_INVALID)')
  })

  test('with a broken certificate is reported, not thrown', async () => {
    const url = parseEngineUrl('tcp://engine.example.com') ?? new URL('https://none')
    const tls = { cert: '-----BEGIN NOTHING', key: '-----BEGIN NOTHING' }
    const trouble = await findEngineError({ url, tls, publicOnly: true }, async () => ['93.184.216.34'])
    expect(trouble).toMatch(/^it is unreachable \(ERR_\w+\)$/)
  })
})

test.each([
  ['tcp://engine.example.com', 'https://engine.example.com:2376/'],
  ['tcp://engine.example.com:443', 'https://engine.example.com/'],
  ['https://engine.example.com:9000/', 'https://engine.example.com:9000/'],
  ['TCP://[2606:4700:4700::1111]:2376', 'https://[2606:4700:4700::1111]:2376/'],
  ['tcp://0x7f.1', 'https://127.0.0.1:2376/'],
  ['tcp://a:b@engine.example.com', undefined],
  ['tcp://engine.example.com:99999', undefined],
  ['tcp://', undefined],
  ['engine.example.com', undefined],
])('%s is %s', (address, url) => {
  expect(parseEngineUrl(address)?.href).toBe(url)
})

type AnyServer =
  | ReturnType<typeof createServer>
  | ReturnType<typeof createTlsServer>
  | ReturnType<typeof createSocketServer>

async function listening(server: AnyServer, path?: string) {
  let connections = 0
  server.on('connection', () => {
    connections += 1
  })
  if (path) server.listen(path)
  else server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    port: typeof address === 'object' ? address?.port : undefined,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

/** One certificate that signs itself and serves both sides. */
async function makeCertificates(into: string): Promise<void> {
  const names = 'subjectAltName=DNS:engine.example.com,IP:127.0.0.1'
  const options = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1']
  await promisify(execFile)('openssl', [
    ...['req', ...options, '-subj', '/CN=assay-test', '-addext', names],
    ...['-keyout', join(into, 'key.pem'), '-out', join(into, 'ca.pem')],
  ])
  await promisify(execFile)('cp', [join(into, 'ca.pem'), join(into, 'cert.pem')])
}
