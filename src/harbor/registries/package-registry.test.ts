import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createDownloadFixture, type DownloadFixture } from '../../../test/support/harbor/download-fixture.ts'
import { type PackageRegistryServer, startPackageRegistry } from '../../../test/support/package-registry.ts'
import type { Digest } from '../../platform/blobs/blob.ts'
import { openPackageRegistry } from './package-registry.ts'
import type { Registry } from './registry.ts'

let fixture: DownloadFixture
let server: PackageRegistryServer
let registry: Registry
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
  fixture.pauses.length = 0
  return () => server[Symbol.asyncDispose]()
})

async function publish(name: string, options: { isPrivate?: boolean; tags?: string[]; task?: string } = {}) {
  const task = await server.rows.publishTask({
    name: options.task ?? `${name}-task`,
    isPrivate: options.isPrivate ?? false,
  })
  return server.rows.publishDataset({ name, tasks: [task], ...options })
}

const aDigest = (place: number): Digest => `sha256:${String(place).padStart(64, '0')}`

test('a tag follows a new version; a revision and a digest do not', async () => {
  const first = await publish('lab/d', { tags: ['stable'] })
  const second = await publish('lab/d', { tags: ['stable'], task: 'lab/other' })
  const revisions = ['', '@stable', '@1', '@2', `@sha256:${first.content_hash}`].map(async (ref) => {
    return (await fixture.resolveDataset(registry, `lab/d${ref}`)).revision
  })

  expect(await Promise.all(revisions)).toEqual([2, 2, 1, 2, 1])
  expect(await fixture.resolveDataset(registry, 'lab/d@stable')).toMatchObject({
    digest: `sha256:${second.content_hash}`,
    resolvedRef: '2',
    description: 'All about lab/d.',
  })
  expect(await fixture.resolve(registry, 'lab/d@3')).toEqual({ kind: 'unknown' })
})

test('reads 1,201 tasks in pages of 1,000', async () => {
  const tasks = Array.from({ length: 1201 }, (_, place) => server.rows.addTask(`lab/t${place}`, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  const dataset = await fixture.resolveDataset(registry, 'lab/d', { tasksMax: 2000 })

  expect(new Set(dataset.tasks.map(({ name }) => name)).size).toBe(1201)
  expect(server.requests.filter((each) => each.includes('dataset_version_task'))).toHaveLength(2)
})

test('reads exactly 1,000 tasks', async () => {
  const tasks = Array.from({ length: 1000 }, (_, place) => server.rows.addTask(`lab/t${place}`, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  expect((await fixture.resolveDataset(registry, 'lab/d', { tasksMax: 1000 })).tasks).toHaveLength(1000)
})

test('counts too many tasks with one query and downloads nothing', async () => {
  const tasks = Array.from({ length: 2500 }, (_, place) => server.rows.addTask(`lab/t${place}`, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  expect(await fixture.resolve(registry, 'lab/d')).toEqual({ kind: 'too_many', count: 2500 })
  expect(server.requests.filter((each) => each.includes('dataset_version_task'))).toHaveLength(1)
  expect(server.requests.filter((each) => each.includes('/storage/'))).toEqual([])
})

test('reports a yanked dataset or task', async () => {
  server.rows.publishDataset({ name: 'lab/d', tasks: [], yankedReason: 'leaked' })
  const task = await server.rows.publishTask({ name: 'lab/bad', isYanked: true })
  server.rows.publishDataset({ name: 'lab/e', tasks: [task] })

  expect(await fixture.resolve(registry, 'lab/d')).toEqual({ kind: 'yanked', reason: 'leaked', tasks: [] })
  expect(await fixture.resolve(registry, 'lab/e')).toEqual({ kind: 'yanked', reason: '', tasks: ['bad'] })
})

test('shows a private dataset only to its organisation', async () => {
  await publish('lab/d', { isPrivate: true })
  const [own, other] = [server.addKey(['lab']), server.addKey(['elsewhere'])]

  expect(await fixture.resolve(registry, 'lab/d')).toEqual({ kind: 'unknown' })
  expect(await fixture.resolve(registry, 'lab/d', { key: other })).toEqual({ kind: 'unknown' })
  const dataset = await fixture.resolveDataset(registry, 'lab/d', { key: own })
  expect(await fixture.download(registry, dataset, { key: own })).toMatchObject({ kind: 'downloaded' })
  const result = await fixture.download(registry, dataset, { key: other, reuse: false })
  expect(result).toMatchObject({ kind: 'refused', faults: [{ reason: 'missing' }] })
})

test('reports private tasks of a public dataset', async () => {
  const task = await server.rows.publishTask({ name: 'lab/secret', isPrivate: true })
  server.rows.publishDataset({ name: 'lab/d', tasks: [task] })

  expect(await fixture.resolve(registry, 'lab/d')).toMatchObject({ kind: 'unauthorized', detail: /1 of its tasks/ })
})

test('reports a revoked key as unauthorized', async () => {
  const dataset = await publish('lab/d', { isPrivate: true })
  const key = server.addKey(['lab'])
  const found = await fixture.resolveDataset(registry, 'lab/d', { key })
  server.revokeKey(key)
  server.expireTokens()

  expect(await fixture.resolve(registry, 'lab/d', { key })).toMatchObject({ kind: 'unauthorized' })
  expect(await fixture.download(registry, found, { key, reuse: false })).toMatchObject({ kind: 'unauthorized' })
  expect(dataset.revision).toBe(1)
})

test('reports an unknown public key as unauthorized', async () => {
  await publish('lab/d')
  const wrong = openPackageRegistry({ name: 'harbor', outbound: fixture.outbound, url: server.url, publicKey: 'old' })

  expect(await fixture.resolve(wrong, 'lab/d')).toMatchObject({ kind: 'unauthorized' })
})

test('reuses a token and renews it when it expires', async () => {
  const tasks = []
  for (let place = 0; place < 6; place++) {
    tasks.push(await server.rows.publishTask({ name: `lab/t${place}`, isPrivate: true }))
  }
  server.rows.publishDataset({ name: 'lab/d', tasks, isPrivate: true })
  const key = server.addKey(['lab'])
  const exchanges = () => server.requests.filter((each) => each.includes('api-key-exchange')).length

  const dataset = await fixture.resolveDataset(registry, 'lab/d', { key })
  expect(exchanges()).toBe(1)

  server.expireTokens() // the questions answer 401
  await fixture.resolveDataset(registry, 'lab/d', { key })
  expect(exchanges()).toBe(2)

  server.expireTokens() // the storage answers 400
  expect(await fixture.download(registry, dataset, { key, reuse: false })).toMatchObject({ kind: 'downloaded' })
  expect(exchanges()).toBe(3)
})

test('does not use an expired token', async () => {
  let now = 0
  registry = openPackageRegistry({ name: 'harbor', outbound: fixture.outbound, now: () => now, ...server })
  const key = server.addKey([])
  await fixture.resolve(registry, 'lab/d', { key })
  now = 890_000
  await fixture.resolve(registry, 'lab/d', { key })

  expect(server.requests.filter((each) => each.includes('api-key-exchange'))).toHaveLength(2)
})

test('sends a personal key only over TLS or on this machine', async () => {
  const far = openPackageRegistry({
    name: 'harbor',
    outbound: fixture.outbound,
    url: 'http://10.0.0.1',
    publicKey: 'public',
  })

  await expect(fixture.resolve(far, 'lab/d', { key: 'sk-harbor-1' })).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isPermanent: true,
  })
})

test('rejects a dataset whose digest does not match its tasks', async () => {
  const task = await server.rows.publishTask({ name: 'lab/t' })
  server.rows.publishDataset({ name: 'lab/d', tasks: [task], digest: aDigest(1) })

  expect(await fixture.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid', detail: /should be sha256:0/ })
})

test('includes additional files in the digest', async () => {
  const task = await server.rows.publishTask({ name: 'lab/t' })
  const files = [{ path: 'metric.py', digest: aDigest(2) }]
  const { content_hash } = server.rows.publishDataset({ name: 'lab/d', tasks: [task], files })

  const dataset = await fixture.resolveDataset(registry, 'lab/d')
  const result = await fixture.download(registry, dataset)

  expect(dataset.files).toEqual(files)
  expect(result).toMatchObject({ kind: 'downloaded', dataset: { digest: `sha256:${content_hash}` } })
})

test.each([
  ['a task twice', ['lab/t', 'lab/t']],
  ['two tasks that one file system takes for one', ['lab/t', 'lab/T']],
  ['a name that leads out', ['lab/..']],
])('%s is refused', async (_, names) => {
  const tasks = names.map((name, place) => server.rows.addTask(name, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  expect(await fixture.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid' })
})

test('finds a moved archive by its digest', async () => {
  const { tasks } = await publish('lab/d')
  const dataset = await fixture.resolveDataset(registry, 'lab/d')
  for (const task of tasks) {
    const bytes = server.rows.objects.get(task.archive_path) ?? Buffer.alloc(0)
    server.rows.objects.delete(task.archive_path)
    task.archive_path = `packages/moved/${task.content_hash}.tar.gz`
    server.rows.objects.set(task.archive_path, bytes)
  }

  expect(await fixture.download(registry, dataset, { reuse: false })).toMatchObject({ kind: 'downloaded' })
  expect(server.requests).toContain('POST /rest/v1/rpc/resolve_task_version')
})
