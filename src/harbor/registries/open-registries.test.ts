import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPackageRegistry } from '../../../test/support/package-registry.ts'
import { isRegistryPlace, openRegistries } from './open-registries.ts'
import type { Registry } from './registry.ts'
import { writeTask } from './testing/subjects.ts'
import { openWorkbench, type Workbench } from './testing/workbench.ts'

let bench: Workbench
beforeAll(async () => {
  bench = await openWorkbench()
})
afterAll(async () => bench[Symbol.asyncDispose]())

/** Nobody listens there. */
const NOWHERE = { harborUrl: 'http://127.0.0.1:9', harborPublicKey: 'public' }
const open = (...places: string[]): Registry => openRegistries({ places, ...NOWHERE }, bench)

test.each([
  ['assay/quick', 5],
  ['assay/polyglot', 24],
])('the sample %s has %i tasks, whole and with the digests that Harbor computed', async (name, count) => {
  const digests = JSON.parse(
    await readFile(fileURLToPath(new URL('../../../samples/digests.json', import.meta.url)), 'utf8'),
  )
  const registry = open('samples')

  const dataset = await bench.found(registry, name)
  const result = await bench.download(registry, dataset)

  expect(dataset.tasks).toHaveLength(count)
  expect(dataset.tasks.map((task) => [task.org, task.digest])).toEqual(
    dataset.tasks.map((task) => ['assay', digests[task.name]]),
  )
  expect(result).toMatchObject({ kind: 'downloaded', dataset: { digest: dataset.digest } })
})

test('the first registry that knows a name decides, and gets its own dataset back', async () => {
  await writeTask(join(bench.folder, 'one/assay/quick/own'), 'assay/own')
  const registry = open(`dir:${bench.folder}/one`, 'samples', 'harbor')

  const own = await bench.found(registry, 'assay/quick')
  const sample = await bench.found(registry, 'assay/polyglot')

  expect([own.tasks.length, own.registry, sample.registry]).toEqual([1, `dir:${bench.folder}/one`, 'samples'])
  expect(await bench.download(registry, own)).toMatchObject({ kind: 'downloaded' })
  await expect(bench.download(open('samples'), own)).rejects.toMatchObject({ isLasting: true })
})

test('a registry that does not answer is not passed over', async () => {
  await using server = await startPackageRegistry()
  const settings = { harborUrl: server.url, harborPublicKey: server.publicKey }
  server.misbehave({ on: '/', status: 503, headers: { 'retry-after': '3600' }, times: 9 })

  const first = openRegistries({ places: ['harbor', 'samples'], ...settings }, bench)
  const last = openRegistries({ places: ['samples', 'harbor'], ...settings }, bench)

  await expect(bench.resolve(first, 'assay/quick')).rejects.toMatchObject({
    ...{ name: 'RegistryUnavailable', message: expect.stringMatching(/^The registry harbor does not answer/) },
    retryAfterMs: 3_600_000,
  })
  expect(await bench.resolve(last, 'assay/quick@9')).toMatchObject({ kind: 'other_versions', registry: 'samples' })
  expect(await bench.found(last, 'assay/quick')).toMatchObject({ registry: 'samples' })
})

test('what can be a registry', () => {
  const good = ['harbor', 'samples', 'dir:/srv/datasets', 'https://example.org/registry.json', './registry.json']
  const bad = ['', 'hub', 'dir:', 'ftp://example.org/registry.json', 'https://example.org', 'git@host:x.json']

  expect([...good, ...bad].filter(isRegistryPlace)).toEqual(good)
})
