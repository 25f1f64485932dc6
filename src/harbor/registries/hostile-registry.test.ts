import { readdir, readFile, writeFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type PackageRegistryServer, startPackageRegistry } from '../../../test/support/package-registry.ts'
import { smallTask } from '../../../test/support/package-registry-rows.ts'
import { startServer } from '../../platform/outbound/loopback-servers.ts'
import { tar, tgz } from '../testing/raw-tar.ts'
import { packageRegistry } from './package-registry.ts'
import type { Registry, ResolvedDataset } from './registry.ts'
import { openWorkbench, type Workbench } from './testing/workbench.ts'

let bench: Workbench
let server: PackageRegistryServer
let registry: Registry
let dataset: ResolvedDataset
beforeAll(async () => {
  bench = await openWorkbench()
})
afterAll(async () => bench[Symbol.asyncDispose]())
beforeEach(async () => {
  server = await startPackageRegistry()
  registry = packageRegistry({ name: 'harbor', outbound: bench.outbound, patience: bench.patience, ...server })
  const tasks = [await server.rows.publishTask({ name: 'lab/a' }), await server.rows.publishTask({ name: 'lab/b' })]
  server.rows.publishDataset({ name: 'lab/d', tasks })
  dataset = await bench.found(registry, 'lab/d')
  bench.pauses.length = 0
  bench.index.clear()
  return () => server[Symbol.asyncDispose]()
})

/** Where the archive of a task is. */
const ARCHIVE = '/lab/a/'
const QUESTION = '/dataset_version_tag'

test('429 is waited for as long as the server asks', async () => {
  server.misbehave({ on: QUESTION, status: 429, headers: { 'retry-after': '7' } })
  server.misbehave({ on: ARCHIVE, status: 429, headers: { 'retry-after': '9' } })

  await bench.found(registry, 'lab/d')
  expect(await bench.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })

  expect(bench.pauses).toEqual([7000, 9000])
})

test('who asks for an hour gets it: we give up at once and say how long', async () => {
  server.misbehave({ on: QUESTION, status: 429, headers: { 'retry-after': '3600' } })

  await expect(bench.resolve(registry, 'lab/d')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    retryAfterMs: 3_600_000,
  })
  expect(bench.pauses).toEqual([])
})

test('500 is tried again with longer and longer pauses, and not for ever', async () => {
  server.misbehave({ on: QUESTION, status: 500, times: 3 })
  await bench.found(registry, 'lab/d')
  expect(bench.pauses.map((ms) => 2 ** Math.round(Math.log2(ms / 1000)))).toEqual([1, 2, 4])

  server.misbehave({ on: QUESTION, status: 503, times: 4 })
  await expect(bench.resolve(registry, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  server.misbehave({ on: ARCHIVE, status: 502, times: 4 })
  await expect(bench.download(registry, dataset)).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  expect(await bench.leftovers()).toEqual([])
})

test('a server that never answers', async () => {
  const hasty = packageRegistry({
    ...{ name: 'harbor', outbound: bench.outbound, patience: bench.patience, timeoutMs: 100 },
    ...server,
  })
  server.misbehave({ on: QUESTION, act: 'hang', times: 4 })

  await expect(bench.resolve(hasty, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable', isLasting: false })
  expect(bench.pauses).toHaveLength(3)
})

test('a server that is not there', async () => {
  const nowhere = packageRegistry({
    ...{ name: 'harbor', outbound: bench.outbound, patience: bench.patience },
    ...{ url: 'http://127.0.0.1:9', publicKey: 'public' },
  })

  await expect(bench.resolve(nowhere, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable' })
})

test.each(['<html>Hello</html>', '{}', '[{"dataset_version": {"id": "../../x", "revision": "many"}}]'])(
  'an answer that is none: %s',
  async (body) => {
    server.misbehave({ on: QUESTION, status: 200, body, times: 4 })

    await expect(bench.resolve(registry, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable' })
  },
)

test('a download that breaks off is tried again, and goes on with what is missing', async () => {
  server.misbehave({ on: ARCHIVE, act: 'break', times: 2 })
  expect(await bench.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })

  bench.index.clear()
  server.misbehave({ on: ARCHIVE, act: 'break', times: 4 })
  await expect(bench.download(registry, dataset, { parallel: 1 })).rejects.toMatchObject({
    name: 'RegistryUnavailable',
  })
  await bench.download(registry, { ...dataset, tasks: dataset.tasks.slice(1), digest: null })
  server.requests.length = 0
  expect(await bench.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })
  expect(server.requests.filter((each) => each.includes('/storage/'))).toHaveLength(1)
})

test('an archive that ends too soon is tried again; if it always does, that is what is wrong with the task', async () => {
  server.misbehave({ on: ARCHIVE, act: 'shorten', times: 1 })
  expect(await bench.download(registry, dataset)).toMatchObject({ kind: 'downloaded' })

  bench.index.clear()
  server.misbehave({ on: ARCHIVE, act: 'shorten', times: 4 })
  const result = await bench.download(registry, dataset)

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason: 'archive_refused' }] })
  expect(await bench.leftovers()).toEqual([])
})

const toml = { name: 'task.toml', content: 'version = "1.0"\n' }

test.each([
  ['bytes of another task', tgz(toml), 'digest_mismatch'],
  ['a path that leads out', tgz(toml, { name: '../../evil', content: 'x' }), 'archive_refused'],
  ['a link', tgz(toml, { name: 'tests/test.sh', type: '2', target: '/etc/passwd' }), 'archive_refused'],
  ['a device', tgz(toml, { name: 'environment/null', type: '3' }), 'archive_refused'],
  ['a zip bomb', gzipSync(tar({ name: 'tests/zeros', content: Buffer.alloc(64 * 1024 * 1024) })), 'archive_refused'],
  ['no archive at all', Buffer.from('not found, sorry'), 'archive_refused'],
])('%s: nothing is stored', async (_, bytes, reason) => {
  server.misbehave({ on: ARCHIVE, send: bytes, times: 4 })

  const result = await bench.download(registry, dataset)

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason }] })
  expect(bench.index.size).toBe(1)
  expect(await bench.leftovers()).toEqual([])
})

test('what the digest does not cover is not kept', async () => {
  const files = smallTask('lab/a').map(([name, content]) => ({ name, content: String(content) }))
  server.misbehave({ on: ARCHIVE, send: tgz(...files, { name: 'extra.sh', content: 'curl evil' }) })

  const result = await bench.download(registry, dataset)

  if (result.kind !== 'downloaded') throw new Error(JSON.stringify(result))
  for (const { stored, name } of result.dataset.tasks) await bench.store.unpack(stored, `${bench.folder}/kept-${name}`)
  expect(await readdir(`${bench.folder}/kept-a`)).toEqual(await readdir(`${bench.folder}/kept-b`))
})

test('a redirect to a private address is not followed, neither for questions nor for archives', async () => {
  await using inner = await startServer((_, response) => response.end('[]'))
  const location = `http://127.0.0.1:${inner.port}/`
  server.misbehave({ on: QUESTION, status: 302, headers: { location } })
  server.misbehave({ on: ARCHIVE, status: 307, headers: { location: 'http://169.254.169.254/latest/meta-data' } })

  await expect(bench.resolve(registry, 'lab/d')).rejects.toMatchObject({ name: 'RegistryUnavailable', isLasting: true })
  await expect(bench.download(registry, dataset)).rejects.toMatchObject({ isLasting: true })
  expect([inner.requests, bench.pauses]).toEqual([[], []])
})

test('a personal key is not sent after a redirect', async () => {
  server.misbehave({ on: 'api-key-exchange', status: 307, headers: { location: 'https://example.org/' } })

  await expect(bench.resolve(registry, 'lab/d', { key: server.addKey([]) })).rejects.toMatchObject({ isLasting: true })
})

test('what is damaged in the store is downloaded again, and whole from then on', async () => {
  const inspect = async () => undefined
  await bench.download(registry, dataset)
  const [archive = ''] = [...bench.index.values()].map((task) => task.archive.slice('sha256:'.length))
  const path = `${bench.folder}/blobs/sha256/${archive.slice(0, 2)}/${archive}`
  const whole = await readFile(path)
  await writeFile(path, whole.subarray(0, 100))
  server.requests.length = 0

  expect(await bench.download(registry, dataset, { inspect })).toMatchObject({ kind: 'downloaded' })

  expect(server.requests.filter((each) => each.includes('/storage/'))).toHaveLength(1)
  expect(await readFile(path)).toEqual(whole)
  expect(await bench.leftovers()).toEqual([])
})

test('a dataset that is too large is given up on the way', async () => {
  const result = await bench.download(registry, dataset, { parallel: 1, bytesMax: 100 })

  expect(result).toMatchObject({ kind: 'refused', faults: [{ task: null, reason: 'too_large' }] })
  expect(server.requests.filter((each) => each.includes('/storage/'))).toHaveLength(1)
})

test('a path of an archive that leads out is not asked for', async () => {
  const tasks = dataset.tasks.map((task) => ({ ...task, at: { kind: 'archive' as const, path: '../../auth/v1/user' } }))
  for (const task of server.rows.taskVersions) task.archive_path = '../../auth/v1/user'

  const result = await bench.download(registry, { ...dataset, tasks })

  expect(result).toMatchObject({ kind: 'refused', faults: [{ reason: 'missing' }, { reason: 'missing' }] })
  expect(server.requests.filter((each) => each.includes('auth'))).toEqual([])
})

test('no more archives at once than asked for', async () => {
  const tasks = []
  for (let place = 0; place < 12; place++) tasks.push(await server.rows.publishTask({ name: `lab/t${place}` }))
  server.rows.publishDataset({ name: 'lab/many', tasks })
  const many = await bench.found(registry, 'lab/many')
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

  expect(await bench.download(counting, many, { parallel: 3 })).toMatchObject({ kind: 'downloaded' })
  expect(most).toBe(3)
})
