import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type PackageRegistryServer, startPackageRegistry } from '../../../test/support/package-registry.ts'
import type { Digest } from '../../platform/blobs/blob.ts'
import { packageRegistry } from './package-registry.ts'
import type { Registry } from './registry.ts'
import { openWorkbench, type Workbench } from './testing/workbench.ts'

let bench: Workbench
let server: PackageRegistryServer
let registry: Registry
beforeAll(async () => {
  bench = await openWorkbench()
})
afterAll(async () => bench[Symbol.asyncDispose]())
beforeEach(async () => {
  server = await startPackageRegistry()
  registry = packageRegistry({ name: 'harbor', outbound: bench.outbound, patience: bench.patience, ...server })
  bench.pauses.length = 0
  return () => server[Symbol.asyncDispose]()
})

async function publish(name: string, wish: { isPrivate?: boolean; tags?: string[]; task?: string } = {}) {
  const task = await server.rows.publishTask({ name: wish.task ?? `${name}-task`, isPrivate: wish.isPrivate ?? false })
  return server.rows.publishDataset({ name, tasks: [task], ...wish })
}

const aDigest = (place: number): Digest => `sha256:${String(place).padStart(64, '0')}`

test('a tag moves, a revision and a digest do not', async () => {
  const first = await publish('lab/d', { tags: ['stable'] })
  const second = await publish('lab/d', { tags: ['stable'], task: 'lab/other' })
  const revisions = ['', '@stable', '@1', '@2', `@sha256:${first.content_hash}`].map(async (ref) => {
    return (await bench.found(registry, `lab/d${ref}`)).revision
  })

  expect(await Promise.all(revisions)).toEqual([2, 2, 1, 2, 1])
  expect(await bench.found(registry, 'lab/d@stable')).toMatchObject({
    digest: `sha256:${second.content_hash}`,
    resolvedRef: '2',
    description: 'All about lab/d.',
  })
  expect(await bench.resolve(registry, 'lab/d@3')).toEqual({ kind: 'unknown' })
})

test('1,201 tasks come in pages of 1,000', async () => {
  const tasks = Array.from({ length: 1201 }, (_, place) => server.rows.addTask(`lab/t${place}`, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  const dataset = await bench.found(registry, 'lab/d', { tasksMax: 2000 })

  expect(new Set(dataset.tasks.map(({ name }) => name)).size).toBe(1201)
  expect(server.requests.filter((each) => each.includes('dataset_version_task'))).toHaveLength(2)
})

test('exactly 1,000 tasks are all of them', async () => {
  const tasks = Array.from({ length: 1000 }, (_, place) => server.rows.addTask(`lab/t${place}`, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  expect((await bench.found(registry, 'lab/d', { tasksMax: 1000 })).tasks).toHaveLength(1000)
})

test('too many are counted with one question, and nothing is downloaded', async () => {
  const tasks = Array.from({ length: 2500 }, (_, place) => server.rows.addTask(`lab/t${place}`, aDigest(place)))
  server.rows.publishDataset({ name: 'lab/d', tasks })

  expect(await bench.resolve(registry, 'lab/d')).toEqual({ kind: 'too_many', count: 2500 })
  expect(server.requests.filter((each) => each.includes('dataset_version_task'))).toHaveLength(1)
  expect(server.requests.filter((each) => each.includes('/storage/'))).toEqual([])
})

test('yanked: the dataset, or one of its tasks', async () => {
  server.rows.publishDataset({ name: 'lab/d', tasks: [], yankedReason: 'leaked' })
  const task = await server.rows.publishTask({ name: 'lab/bad', isYanked: true })
  server.rows.publishDataset({ name: 'lab/e', tasks: [task] })

  expect(await bench.resolve(registry, 'lab/d')).toEqual({ kind: 'yanked', reason: 'leaked', tasks: [] })
  expect(await bench.resolve(registry, 'lab/e')).toEqual({ kind: 'yanked', reason: '', tasks: ['bad'] })
})

test('a private dataset is unknown to everybody but its organisation', async () => {
  await publish('lab/d', { isPrivate: true })
  const [own, other] = [server.addKey(['lab']), server.addKey(['elsewhere'])]

  expect(await bench.resolve(registry, 'lab/d')).toEqual({ kind: 'unknown' })
  expect(await bench.resolve(registry, 'lab/d', { key: other })).toEqual({ kind: 'unknown' })
  const dataset = await bench.found(registry, 'lab/d', { key: own })
  expect(await bench.download(registry, dataset, { key: own })).toMatchObject({ kind: 'downloaded' })
  const result = await bench.download(registry, dataset, { key: other, reuse: false })
  expect(result).toMatchObject({ kind: 'refused', faults: [{ reason: 'missing' }] })
})

test('a public dataset with private tasks says so', async () => {
  const task = await server.rows.publishTask({ name: 'lab/secret', isPrivate: true })
  server.rows.publishDataset({ name: 'lab/d', tasks: [task] })

  expect(await bench.resolve(registry, 'lab/d')).toMatchObject({ kind: 'unauthorized', detail: /1 of its tasks/ })
})

test('a key that was revoked', async () => {
  const dataset = await publish('lab/d', { isPrivate: true })
  const key = server.addKey(['lab'])
  const found = await bench.found(registry, 'lab/d', { key })
  server.revokeKey(key)
  server.expireTokens()

  expect(await bench.resolve(registry, 'lab/d', { key })).toMatchObject({ kind: 'unauthorized' })
  expect(await bench.download(registry, found, { key, reuse: false })).toMatchObject({ kind: 'unauthorized' })
  expect(dataset.revision).toBe(1)
})

test('a public key that the server does not know', async () => {
  await publish('lab/d')
  const wrong = packageRegistry({ name: 'harbor', outbound: bench.outbound, url: server.url, publicKey: 'old' })

  expect(await bench.resolve(wrong, 'lab/d')).toMatchObject({ kind: 'unauthorized' })
})

test('one token serves many requests, and is exchanged again when it runs out', async () => {
  const tasks = []
  for (let place = 0; place < 6; place++) {
    tasks.push(await server.rows.publishTask({ name: `lab/t${place}`, isPrivate: true }))
  }
  server.rows.publishDataset({ name: 'lab/d', tasks, isPrivate: true })
  const key = server.addKey(['lab'])
  const exchanges = () => server.requests.filter((each) => each.includes('api-key-exchange')).length

  const dataset = await bench.found(registry, 'lab/d', { key })
  expect(exchanges()).toBe(1)

  server.expireTokens() // the questions answer 401
  await bench.found(registry, 'lab/d', { key })
  expect(exchanges()).toBe(2)

  server.expireTokens() // the storage answers 400
  expect(await bench.download(registry, dataset, { key, reuse: false })).toMatchObject({ kind: 'downloaded' })
  expect(exchanges()).toBe(3)
})

test('a token is not used past its time', async () => {
  let now = 0
  registry = packageRegistry({ name: 'harbor', outbound: bench.outbound, now: () => now, ...server })
  const key = server.addKey([])
  await bench.resolve(registry, 'lab/d', { key })
  now = 890_000
  await bench.resolve(registry, 'lab/d', { key })

  expect(server.requests.filter((each) => each.includes('api-key-exchange'))).toHaveLength(2)
})

test('a personal key goes over TLS or stays on this machine', async () => {
  const far = packageRegistry({ name: 'harbor', outbound: bench.outbound, url: 'http://10.0.0.1', publicKey: 'public' })

  await expect(bench.resolve(far, 'lab/d', { key: 'sk-harbor-1' })).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    isLasting: true,
  })
})

test('a dataset whose digest is not that of its tasks', async () => {
  const task = await server.rows.publishTask({ name: 'lab/t' })
  server.rows.publishDataset({ name: 'lab/d', tasks: [task], digest: aDigest(1) })

  expect(await bench.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid', detail: /should be sha256:0/ })
})

test('files beside the tasks count in the digest', async () => {
  const task = await server.rows.publishTask({ name: 'lab/t' })
  const files = [{ path: 'metric.py', digest: aDigest(2) }]
  const { content_hash } = server.rows.publishDataset({ name: 'lab/d', tasks: [task], files })

  const dataset = await bench.found(registry, 'lab/d')
  const result = await bench.download(registry, dataset)

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

  expect(await bench.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid' })
})

test('an archive that has moved since is found by its digest', async () => {
  const { tasks } = await publish('lab/d')
  const dataset = await bench.found(registry, 'lab/d')
  for (const task of tasks) {
    const bytes = server.rows.objects.get(task.archive_path) ?? Buffer.alloc(0)
    server.rows.objects.delete(task.archive_path)
    task.archive_path = `packages/moved/${task.content_hash}.tar.gz`
    server.rows.objects.set(task.archive_path, bytes)
  }

  expect(await bench.download(registry, dataset, { reuse: false })).toMatchObject({ kind: 'downloaded' })
  expect(server.requests).toContain('POST /rest/v1/rpc/resolve_task_version')
})
