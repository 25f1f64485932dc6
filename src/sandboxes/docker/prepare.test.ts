import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLog } from '../../platform/log.ts'
import { connectDocker } from './client.ts'
import type { DockerEngine } from './engine.ts'
import { prepareImage } from './prepare.ts'

const idOf = (name: string): string => `sha256:${createHash('sha256').update(name).digest('hex')}`

const folder = mkdtempSync(join(tmpdir(), 'assay-inspect-'))
const socket = join(folder, 'engine.sock')
const digests: Record<string, string[] | null> = {
  'debian:trixie-slim': ['mirror.example.org/debian@sha256:1', 'debian@sha256:2'],
  'mirror.example.org:5000/os/debian:1': ['mirror.example.org:5000/os/debian@sha256:3'],
  'renamed:1': ['elsewhere@sha256:4'],
  'loaded:1': [],
  'imported:1': null,
}

const requests: string[] = []

/** Answers as the engine's own documentation says it does. */
const server = createServer((request, response) => {
  requests.push(`${request.method} ${decodeURIComponent(request.url ?? '')}`)
  const name = decodeURIComponent(request.url ?? '').replace(/^\/images\/(.*)\/json$/, '$1')
  response.setHeader('content-type', 'application/json')
  if (!(name in digests)) {
    // The message of a registry that answered, as the engine passes it on.
    response.statusCode = request.method === 'GET' ? 404 : 500
    return void response.end(JSON.stringify({ message: 'server gave HTTP response to HTTPS client' }))
  }
  response.end(JSON.stringify({ Id: idOf(name), RepoDigests: digests[name], Config: {} }))
})
const docker = connectDocker({ kind: 'unix', path: socket })

beforeAll(async () => {
  server.listen(socket)
  await once(server, 'listening')
})
afterAll(() => {
  docker.close()
  server.close()
  rmSync(folder, { recursive: true })
})

test.each([
  ['debian:trixie-slim', 'debian@sha256:2'],
  ['mirror.example.org:5000/os/debian:1', 'mirror.example.org:5000/os/debian@sha256:3'],
  ['renamed:1', 'elsewhere@sha256:4'],
  ['loaded:1', undefined],
  ['imported:1', undefined],
])('reports the registry digest of an image if it has one: %s is %s', async (name, registryName) => {
  const options = { signal: new AbortController().signal, timeoutSec: 10, onLog: () => {} }
  const source = { kind: 'prebuilt', name, folder: null, workdir: null } as const
  const image = await prepareImage({ docker } as DockerEngine, source, options)
  expect([image.digest, image.registryName]).toEqual([idOf(name), registryName])
})

const engine = (lines: string[] = []) =>
  ({ docker, buildHosts: [], log: createLog('warn', (line) => lines.push(line)) }) as unknown as DockerEngine
const options = () => ({ signal: new AbortController().signal, timeoutSec: 10, onLog: () => {} })
const named = (name: string) => ({ kind: 'prebuilt', name, folder: null, workdir: null }) as const

const listPulls = (): string[] => requests.filter((line) => line.startsWith('POST'))

test.each(['127.0.0.1:5000/a:1', 'localhost/a:1', 'registry:5000/a:1'])('%s is not pulled', async (name) => {
  await expect(prepareImage(engine(), named(name), options())).rejects.toThrow('could not pull it')
  expect(listPulls()).toEqual([])
})

test('COPY --from a private registry is refused before the engine builds', async () => {
  writeFileSync(join(folder, 'Dockerfile'), 'FROM debian:trixie-slim\nCOPY --from=127.0.0.1:5000/a / /a/\n')
  const source = { kind: 'dockerfile', context: folder, dockerfile: 'Dockerfile', target: null, args: {} } as const
  await expect(prepareImage(engine(), source, options())).rejects.toThrow('could not pull it')
  expect(listPulls()).toEqual([])
})

test('the reason of a failed pull is in the log and not in the error', async () => {
  const lines: string[] = []
  const error: Error = await prepareImage(engine(lines), named('8.8.8.8:5000/a:1'), options()).then(
    () => expect.unreachable(),
    (thrown) => thrown,
  )
  expect(listPulls()).toHaveLength(1)
  expect(error.message).not.toContain('HTTP response')
  expect(lines.join('')).toContain('HTTP response')
})
