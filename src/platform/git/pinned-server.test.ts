import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type LoopbackServer, startServer, trustedCertificate } from '../../../test/support/loopback-servers.ts'
import type { PinnedServer } from '../outbound/pinned-connections.ts'
import { GitFailed, runGit } from './git.ts'

const HOST = 'git.example.org'
let folder: string
let server: LoopbackServer
let other: LoopbackServer
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'assay-pinned-'))
  const tls = await trustedCertificate([HOST])
  await writeFile(join(folder, 'ca.pem'), tls.cert)
  other = await startServer((_, response) => void response.end())
  server = await startServer(
    ({ url = '' }, response) => {
      if (url.startsWith('/moved'))
        return void response.writeHead(302, { location: `http://127.0.0.1:${other.port}${url}` }).end()
      if (url.startsWith('/alternates') && url.includes('/info/refs'))
        return void response.end(`${'a'.repeat(40)}\trefs/heads/main\n`)
      if (url.endsWith('alternates')) return void response.end(`http://127.0.0.1:${other.port}/x.git/objects/\n`)
      return void response.writeHead(404).end()
    },
    { tls },
  )
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

/** Runs real git, whose only way out is the proxy. */
const git = (pin: PinnedServer, args: string[], more: string[] = []) => {
  const settings = [`http.sslCAInfo=${join(folder, 'ca.pem')}`, ...more]
  const location = { repositoryArgs: [], cwd: folder, protocols: 'https:http', pin, settings }
  return runGit(location, args, { signal: AbortSignal.timeout(30_000) }).catch((error: unknown) => error)
}
const pinned = (): PinnedServer => ({ host: HOST, port: server.port, addresses: ['127.0.0.1'] })

test('git connects to the pinned address by its name without resolving it again', async () => {
  await git(pinned(), ['ls-remote', `https://${HOST}:${server.port}/x.git`])
  expect(server.requests).toContainEqual(
    expect.objectContaining({ path: '/x.git/info/refs?service=git-upload-pack', serverName: HOST }),
  )
})

test.each([
  ['the address has two readings', () => `https://93.184.216.34\\@127.0.0.1:${other.port}/x.git`],
  ['it names another port', () => `https://${HOST}:${other.port}/x.git`],
  ['it names the address instead of the name', () => `https://127.0.0.1:${other.port}/x.git`],
  ['it has a user name', () => `https://${HOST}@127.0.0.1:${other.port}/x.git`],
  ['it is plain http', () => `http://127.0.0.1:${other.port}/x.git`],
])('only the pinned server is reached when %s', async (_, url) => {
  const before = server.connections.length
  expect(await git(pinned(), ['ls-remote', url()], ['transfer.credentialsInUrl=allow'])).toBeInstanceOf(GitFailed)
  expect(other.connections).toEqual([])
  expect(server.connections).toHaveLength(before)
})

test('only the pinned server is reached when it redirects or names alternates', async () => {
  await git(pinned(), ['init', '--quiet', '--bare', join(folder, 'bare')])
  const origin = `https://${HOST}:${server.port}`
  for (const follow of ['false', 'true'])
    for (const path of ['/moved/x.git', '/alternates/x.git']) {
      const fetch = ['--git-dir', join(folder, 'bare'), 'fetch', origin + path, 'refs/heads/main']
      expect(await git(pinned(), fetch, [`http.followRedirects=${follow}`])).toBeInstanceOf(GitFailed)
    }
  expect(server.requests.map(({ path }) => path)).toContain('/alternates/x.git/objects/info/http-alternates')
  expect(other.connections).toEqual([])
})
