import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connectDocker } from './client.ts'
import type { DockerEngine } from './engine.ts'
import { prepareImage } from './prepare.ts'

const folder = mkdtempSync(join(tmpdir(), 'assay-inspect-'))
const socket = join(folder, 'engine.sock')
const digests: Record<string, string[] | null> = {
  'debian:trixie-slim': ['mirror.example.org/debian@sha256:1', 'debian@sha256:2'],
  'mirror.example.org:5000/os/debian:1': ['mirror.example.org:5000/os/debian@sha256:3'],
  'renamed:1': ['elsewhere@sha256:4'],
  'loaded:1': [],
  'imported:1': null,
}

/** Answers as the engine's own documentation says it does. */
const server = createServer((request, response) => {
  const name = decodeURIComponent(request.url ?? '').replace(/^\/images\/(.*)\/json$/, '$1')
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ Id: `sha256:${name}`, RepoDigests: digests[name], Config: {} }))
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
  expect([image.digest, image.registryName]).toEqual([`sha256:${name}`, registryName])
})
