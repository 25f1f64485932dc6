import { readdir, readFile, writeFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createDownloadFixture, type DownloadFixture } from '../../../test/support/harbor/download-fixture.ts'
import { tar, tgz } from '../../../test/support/harbor/raw-tar.ts'
import { startServer } from '../../../test/support/loopback-servers.ts'
import { type PackageRegistryServer, startPackageRegistry } from '../../../test/support/package-registry.ts'
import { smallTask } from '../../../test/support/package-registry-rows.ts'
import { openPackageRegistry } from './package-registry.ts'
import type { Registry, ResolvedDataset } from './registry.ts'

let fixture: DownloadFixture
let server: PackageRegistryServer
let registry: Registry
let dataset: ResolvedDataset
beforeAll(async () => {
  fixture = await createDownloadFixture()
})
afterAll(async () => fixture[Symbol.asyncDispose]())
beforeEach(async () => {
  server = await startPackageRegistry()
  registry = openPackageRegistry({
    name: 'harbor',
    outbound: fixture.outbound,
    retryTimer: fixture.retryTimer,
    ...server,
  })
  const tasks = [await server.rows.publishTask({ name: 'lab/a' }), await server.rows.publishTask({ name: 'lab/b' })]
  server.rows.publishDataset({ name: 'lab/d', tasks })
  dataset = await fixture.resolveDataset(registry, 'lab/d')
  fixture.pauses.length = 0
  fixture.index.clear()
  return () => server[Symbol.asyncDispose]()
})

/** Returns the storage path of a task's archive. */
const ARCHIVE = '/lab/a/'
const QUESTION = '/dataset_version_tag'

test('waits as long as a 429 response requests', async () => {
  server.misbehave({ on: QUESTION, status: 429, headers: { 'retry-after': '7' } })
  server.misbehave({ on: ARCHIVE, status: 429, headers: { 'retry-after': '9' } })

  await fixture.resolveDataset(registry, 'lab/d')
  expect(await fixture.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })

  expect(fixture.pauses).toEqual([7000, 9000])
})

test('does not wait for a Retry-After of an hour but reports it', async () => {
  server.misbehave({ on: QUESTION, status: 429, headers: { 'retry-after': '3600' } })

  await expect(fixture.resolve(registry, 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    retryAfterMs: 3_600_000,
  })
  expect(fixture.pauses).toEqual([])
})

test('retries a 500 with increasing pauses and a limited number of attempts', async () => {
  server.misbehave({ on: QUESTION, status: 500, times: 3 })
  await fixture.resolveDataset(registry, 'lab/d')
  expect(fixture.pauses.map((ms) => 2 ** Math.round(Math.log2(ms / 1000)))).toEqual([1, 2, 4])

  server.misbehave({ on: QUESTION, status: 503, times: 4 })
  await expect(fixture.resolve(registry, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  server.misbehave({ on: ARCHIVE, status: 502, times: 4 })
  await expect(fixture.download(registry, dataset)).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  expect(await fixture.leftovers()).toEqual([])
})

test('reports a server that never answers as unavailable', async () => {
  const hasty = openPackageRegistry({
    name: 'harbor',
    outbound: fixture.outbound,
    retryTimer: fixture.retryTimer,
    timeoutMs: 100,
    ...server,
  })
  server.misbehave({ on: QUESTION, act: 'hang', times: 4 })

  await expect(fixture.resolve(hasty, 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isPermanent: false,
  })
  expect(fixture.pauses).toHaveLength(3)
})

test('reports an unreachable server as unavailable', async () => {
  const nowhere = openPackageRegistry({
    name: 'harbor',
    outbound: fixture.outbound,
    retryTimer: fixture.retryTimer,
    url: 'http://127.0.0.1:9',
    publicKey: 'public',
  })

  await expect(fixture.resolve(nowhere, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable' })
})

test.each(['<html>Hello</html>', '{}', '[{"dataset_version": {"id": "../../x", "revision": "many"}}]'])(
  'reports an invalid answer: %s',
  async (body) => {
    server.misbehave({ on: QUESTION, status: 200, body, times: 4 })

    await expect(fixture.resolve(registry, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  },
)

test('resumes an interrupted download with the missing tasks', async () => {
  server.misbehave({ on: ARCHIVE, act: 'break', times: 2 })
  expect(await fixture.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })

  fixture.index.clear()
  server.misbehave({ on: ARCHIVE, act: 'break', times: 4 })
  await expect(fixture.download(registry, dataset, { parallel: 1 })).rejects.toMatchObject({
    name: 'RegistryUnavailable',
  })
  await fixture.download(registry, { ...dataset, tasks: dataset.tasks.slice(1), digest: null })
  server.requests.length = 0
  expect(await fixture.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })
  expect(server.requests.filter((each) => each.includes('/storage/'))).toHaveLength(1)
})

test('retries a truncated archive and reports a fault if it stays truncated', async () => {
  server.misbehave({ on: ARCHIVE, act: 'shorten', times: 1 })
  expect(await fixture.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })

  fixture.index.clear()
  server.misbehave({ on: ARCHIVE, act: 'shorten', times: 4 })
  const result = await fixture.download(registry, dataset)

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason: 'archive_refused' }] })
  expect(await fixture.leftovers()).toEqual([])
})

const toml = { name: 'task.toml', content: 'version = "1.0"\n' }

test.each([
  ['bytes of another task', tgz(toml), 'digest_mismatch'],
  ['a path that leads out', tgz(toml, { name: '../../evil', content: 'x' }), 'archive_refused'],
  ['a link', tgz(toml, { name: 'tests/test.sh', type: '2', target: '/etc/passwd' }), 'archive_refused'],
  ['a device', tgz(toml, { name: 'environment/null', type: '3' }), 'archive_refused'],
  ['a zip bomb', gzipSync(tar({ name: 'tests/zeros', content: Buffer.alloc(64 * 1024 * 1024) })), 'archive_refused'],
  ['no archive at all', Buffer.from('not found, sorry'), 'archive_refused'],
])('stores nothing of an archive with %s', async (_, bytes, reason) => {
  server.misbehave({ on: ARCHIVE, send: bytes, times: 4 })

  const result = await fixture.download(registry, dataset)

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason }] })
  expect(fixture.index.size).toBe(1)
  expect(await fixture.leftovers()).toEqual([])
})

test('does not store files that the digest does not cover', async () => {
  const files = smallTask('lab/a').map(([name, content]) => ({ name, content: String(content) }))
  server.misbehave({ on: ARCHIVE, send: tgz(...files, { name: 'extra.sh', content: 'curl evil' }) })

  const result = await fixture.download(registry, dataset)

  if (result.kind !== 'downloaded') throw new Error(JSON.stringify(result))
  for (const { stored, name } of result.dataset.tasks)
    await fixture.store.unpack(stored, `${fixture.folder}/kept-${name}`)
  expect(await readdir(`${fixture.folder}/kept-a`)).toEqual(await readdir(`${fixture.folder}/kept-b`))
})

test('does not follow redirects to private addresses for queries or archives', async () => {
  await using inner = await startServer((_, response) => response.end('[]'))
  const location = `http://127.0.0.1:${inner.port}/`
  server.misbehave({ on: QUESTION, status: 302, headers: { location } })
  server.misbehave({ on: ARCHIVE, status: 307, headers: { location: 'http://169.254.169.254/latest/meta-data' } })

  await expect(fixture.resolve(registry, 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isPermanent: true,
  })
  await expect(fixture.download(registry, dataset)).rejects.toMatchObject({ isPermanent: true })
  expect([inner.requests, fixture.pauses]).toEqual([[], []])
})

test('does not send a personal key to a redirect target', async () => {
  server.misbehave({ on: 'api-key-exchange', status: 307, headers: { location: 'https://example.org/' } })

  await expect(fixture.resolve(registry, 'lab/d', { key: server.addKey([]) })).rejects.toMatchObject({
    isPermanent: true,
  })
})

test('downloads a damaged stored task again and repairs the store', async () => {
  const inspect = async () => undefined
  await fixture.download(registry, dataset)
  const [archive = ''] = [...fixture.index.values()].map((task) => task.archive.slice('sha256:'.length))
  const path = `${fixture.folder}/blobs/sha256/${archive.slice(0, 2)}/${archive}`
  const whole = await readFile(path)
  await writeFile(path, whole.subarray(0, 100))
  server.requests.length = 0

  expect(await fixture.download(registry, dataset, { inspect })).toMatchObject({ kind: 'downloaded' })

  expect(server.requests.filter((each) => each.includes('/storage/'))).toHaveLength(1)
  expect(await readFile(path)).toEqual(whole)
  expect(await fixture.leftovers()).toEqual([])
})

test('stops the download of a dataset that is too large', async () => {
  const result = await fixture.download(registry, dataset, { parallel: 1, bytesMax: 100 })

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: null, reason: 'too_large' }] })
  expect(server.requests.filter((each) => each.includes('/storage/'))).toHaveLength(1)
})

test('does not request an archive path that leads out of the storage', async () => {
  const tasks = dataset.tasks.map((task) => ({ ...task, at: { kind: 'archive' as const, path: '../../auth/v1/user' } }))
  for (const task of server.rows.taskVersions) task.archive_path = '../../auth/v1/user'

  const result = await fixture.download(registry, { ...dataset, tasks })

  expect(result).toMatchObject({ kind: 'refused', faults: [{ reason: 'missing' }, { reason: 'missing' }] })
  expect(server.requests.filter((each) => each.includes('auth'))).toEqual([])
})

test('limits the number of concurrent downloads', async () => {
  const tasks = []
  for (let place = 0; place < 12; place++) tasks.push(await server.rows.publishTask({ name: `lab/t${place}` }))
  server.rows.publishDataset({ name: 'lab/many', tasks })
  const many = await fixture.resolveDataset(registry, 'lab/many')
  let [open, most] = [0, 0]
  const counting: Registry = {
    ...registry,
    async open(each, options) {
      const opened = await registry.open(each, options)
      return {
        ...opened,
        async fetch(task, signal) {
          most = Math.max(most, ++open)
          const archive = await opened.fetch(task, signal)
          archive.once('close', () => open--)
          return archive
        },
        [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
      }
    },
  }

  expect(await fixture.download(counting, many, { parallel: 3 })).toMatchObject({ kind: 'downloaded' })
  expect(most).toBe(3)
})
