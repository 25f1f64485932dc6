import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { startServer } from '../../../test/support/loopback-servers.ts'
import { REGISTRY_USER, startRegistry, type TestRegistry } from '../../../test/support/sandboxes/docker-registry.ts'
import { createLog } from '../../platform/log.ts'
import type { Mount } from '../sandbox.ts'
import { createImageBuilder } from './build-image.ts'
import { prepareFolderImages } from './folder-images.ts'
import { RegistrySettings } from './registry-settings.ts'

const top = await mkdtemp(join(tmpdir(), 'assay-folder-images-'))
afterAll(() => rm(top, { recursive: true }))

let program: string
beforeEach(async () => {
  program = await mkdtemp(join(top, 'program-'))
  await mkdir(join(program, 'bin'))
  await writeFile(join(program, 'bin/agent'), '#!/bin/sh\necho agent\n')
  await chmod(join(program, 'bin/agent'), 0o755)
  await symlink('bin/agent', join(program, 'start'))
})

const mount = (isImmutable: boolean): Mount => ({
  kind: 'folder',
  source: program,
  target: '/opt/agent',
  readOnly: true,
  isImmutable,
})

/** Creates a worker that finds the images of mounts. */
function openWorker(registry: object | undefined) {
  const builder = registry && createImageBuilder(RegistrySettings.parse(registry), { storeFolder: '', buildHosts: [] })
  const cluster = { folder: top, log: createLog('silent'), builder }
  return (mounts: Mount[]) => prepareFolderImages(cluster, mounts)
}

const prepare = (registry: object | undefined, mounts: Mount[]) => openWorker(registry)(mounts)

const toSettings = ({ host }: TestRegistry) => ({ repository: `${host}/assay`, insecure: true })

test('a folder that never changes is pushed once, and other workers find it', async () => {
  await using registry = await startRegistry()
  const pushed = await prepare(toSettings(registry), [mount(false), mount(true)])
  expect([...pushed.keys()]).toEqual([1])
  const name = pushed.get(1) ?? ''
  expect(name).toMatch(new RegExp(`^${registry.host}/assay@sha256:[0-9a-f]{64}$`))
  expect(await registry.readFile(name, '/folder/bin/agent')).toBe('#!/bin/sh\necho agent\n')

  registry.requests.length = 0
  const nodeRepository = 'registry.cluster:5000/assay'
  const found = await prepare({ ...toSettings(registry), nodeRepository, builds: false }, [mount(true)])
  expect(found.get(0)).toBe(name.replace(`${registry.host}/assay`, nodeRepository))
  expect(registry.requests.filter((line) => !line.startsWith('GET '))).toEqual([])
})

test('a changed folder is another image', async () => {
  await using registry = await startRegistry()
  const before = await prepare(toSettings(registry), [mount(true)])
  await writeFile(join(program, 'bin/agent'), '#!/bin/sh\necho newer\n')
  const after = await prepare(toSettings(registry), [mount(true)])
  expect(after.get(0)).not.toBe(before.get(0))
})

test('concurrent sandboxes push a folder once', async () => {
  await using registry = await startRegistry()
  const worker = openWorker(toSettings(registry))
  const names = await Promise.all(Array.from({ length: 5 }, () => worker([mount(true)])))
  expect(new Set(names.map((images) => images.get(0))).size).toBe(1)
  expect(registry.requests.filter((line) => /^PUT \/v2\/assay\/manifests\//.test(line))).toHaveLength(1)
})

test('the credential is sent with the bytes, which are sent once', async () => {
  await using registry = await startRegistry({ hasUser: true })
  const passwordFile = join(top, 'password')
  await writeFile(passwordFile, REGISTRY_USER.password)
  const credential = { username: REGISTRY_USER.username, passwordFile }
  const pushed = await prepare({ ...toSettings(registry), ...credential }, [mount(true)])
  expect(await registry.readFile(pushed.get(0) ?? '', '/folder/bin/agent')).toContain('echo agent')
  const uploads = registry.requests.filter((line) => /^PUT \/v2\/assay\/blobs\/uploads\//.test(line))
  expect(uploads.map((line) => line.split(' ').at(-1))).toEqual(['201', '201'])
})

test('bytes that a registry wants elsewhere are sent with their length and without the credential', async () => {
  await using storage = await startServer((_, response) => void response.writeHead(201).end())
  await using registry = await startServer(({ method, url = '', headers }, response) => {
    if (headers.authorization === undefined)
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end()
    if (method === 'POST')
      return void response.writeHead(202, { location: `http://127.0.0.1:${storage.port}/upload?state=a` }).end()
    response.writeHead(method === 'PUT' && url.includes('/manifests/') ? 201 : 404).end()
  })
  const passwordFile = join(top, 'password')
  await writeFile(passwordFile, 'secret')
  const repository = `127.0.0.1:${registry.port}/assay`
  const pushed = await prepare({ repository, insecure: true, username: 'robot', passwordFile }, [mount(true)])
  expect(pushed.get(0)).toContain(`${repository}@sha256:`)
  expect(storage.requests).toHaveLength(2)
  for (const { path, headers } of storage.requests) {
    expect(path).toMatch(/^\/upload\?state=a&digest=sha256%3A[0-9a-f]{64}$/)
    expect(headers.authorization).toBeUndefined()
    expect(Number(headers['content-length'])).toBeGreaterThan(0)
  }
})

test.each([
  ['without a registry', undefined],
  ['with a registry that does not answer', { repository: '127.0.0.1:1/assay', insecure: true }],
])('%s, folders are uploaded', async (_, settings) => {
  expect((await prepare(settings, [mount(true)])).size).toBe(0)
})

test('with a registry that refuses pushes, folders are uploaded, and it is not asked again for a while', async () => {
  await using registry = await startServer(
    ({ method }, response) => void response.writeHead(method === 'GET' ? 404 : 403).end('read-only'),
  )
  const worker = openWorker({ repository: `127.0.0.1:${registry.port}/assay`, insecure: true })
  expect((await worker([mount(true)])).size).toBe(0)
  const asked = registry.requests.length
  expect((await worker([mount(true)])).size).toBe(0)
  expect(registry.requests).toHaveLength(asked)
})
