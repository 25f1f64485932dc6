import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createDownloadFixture, type DownloadFixture } from '../../../test/support/harbor/download-fixture.ts'
import {
  listTaskFiles,
  PAIR,
  REGISTRY_FIXTURES,
  type RegistryFixture,
} from '../../../test/support/harbor/registry-fixtures.ts'
import type { Digest } from '../../platform/blobs/blob.ts'
import { computeDatasetDigest } from '../digest.ts'
import { readTask } from '../read-task.ts'
import { createMemorySource } from '../source.ts'
import type { DownloadedDataset, DownloadProgress } from './download.ts'
import type { Registry, ResolvedDataset } from './registry.ts'

const digestOf = async (name: string): Promise<Digest> =>
  (await readTask(createMemorySource(name, listTaskFiles(name)))).digest
const SORTED = PAIR.toSorted()

/** Wraps a registry and counts its calls. */
function watched(registry: Registry, fetched: string[]): Registry {
  return {
    ...registry,
    async open(dataset, options) {
      const open = await registry.open(dataset, options)
      return {
        fetch(task, signal) {
          fetched.push(task.name)
          return open.fetch(task, signal)
        },
        [Symbol.asyncDispose]: () => open[Symbol.asyncDispose](),
      }
    },
  }
}

describe.each(REGISTRY_FIXTURES)('%s', (_, start) => {
  let fixture: DownloadFixture
  let subject: RegistryFixture
  beforeAll(async () => {
    fixture = await createDownloadFixture()
    subject = await start(fixture)
  })
  afterAll(async () => {
    await subject[Symbol.asyncDispose]()
    await fixture[Symbol.asyncDispose]()
  })

  /** Some registries list the existing versions. */
  const otherVersions = () =>
    subject.versions
      ? { kind: 'other_versions', registry: subject.registry.name, versions: subject.versions }
      : { kind: 'unknown' }

  async function downloaded(dataset: ResolvedDataset): Promise<DownloadedDataset> {
    const result = await fixture.download(subject.registry, dataset)
    if (result.kind !== 'downloaded') throw new Error(JSON.stringify(result))
    return result.dataset
  }

  test('resolves latest and lists tasks in a fixed order', async () => {
    const dataset = await fixture.resolveDataset(subject.registry, 'lab/pair')

    expect(dataset).toMatchObject({ org: 'lab', name: 'pair', ref: 'latest', registry: subject.registry.name })
    expect(dataset.tasks.map(({ org, name }) => `${org}/${name}`)).toEqual(SORTED)
    expect(JSON.parse(JSON.stringify(dataset))).toEqual(dataset)
    expect(await fixture.leftovers()).toEqual([])
  })

  test('resolves an existing tag and no other', async () => {
    const dataset = await fixture.resolveDataset(subject.registry, 'lab/pair@1.0')

    expect(dataset.ref).toBe('1.0')
    expect({ ...dataset, ref: 'latest' }).toEqual(await fixture.resolveDataset(subject.registry, 'lab/pair'))
    for (const other of ['1.1', '77'])
      expect(await fixture.resolve(subject.registry, `lab/pair@${other}`)).toEqual(otherVersions())
  })

  test('resolves a digest if digests are known before the download', async () => {
    const digest = computeDatasetDigest(await Promise.all(PAIR.map(digestOf)))
    const resolution = await fixture.resolve(subject.registry, `lab/pair@${digest}`)

    if (subject.knowsDigests) expect(resolution).toMatchObject({ kind: 'found', dataset: { digest } })
    else expect(resolution).toEqual(otherVersions())
    expect(await fixture.resolve(subject.registry, `lab/pair@sha256:${'f'.repeat(64)}`)).toEqual(otherVersions())
  })

  test('reports an unknown dataset, an empty dataset, and a task instead of a dataset', async () => {
    expect(await fixture.resolve(subject.registry, 'lab/nobody')).toEqual({ kind: 'unknown' })
    expect(await fixture.resolve(subject.registry, 'nobody/pair')).toEqual({ kind: 'unknown' })
    expect(await fixture.resolve(subject.registry, 'lab/none')).toEqual({ kind: 'empty' })
    const kind = subject.knowsTasks ? 'not_a_dataset' : 'unknown'
    expect(await fixture.resolve(subject.registry, 'lab/a')).toEqual({ kind })
  })

  test('reports the number of tasks if there are more than 500', async () => {
    expect(await fixture.resolve(subject.registry, 'lab/crowd')).toEqual({ kind: 'too_many', count: 501 })
    expect(await fixture.resolve(subject.registry, 'lab/pair', { tasksMax: 1 })).toEqual({ kind: 'too_many', count: 2 })
    expect(await fixture.resolve(subject.registry, 'lab/pair', { tasksMax: 2 })).toMatchObject({ kind: 'found' })
  })

  test('downloads all files with the digests of Harbor', async () => {
    const dataset = await downloaded(await fixture.resolveDataset(subject.registry, 'lab/pair'))

    expect(dataset.tasks.map(({ digest }) => digest)).toEqual(await Promise.all(SORTED.map(digestOf)))
    expect(dataset.digest).toBe(computeDatasetDigest(await Promise.all(PAIR.map(digestOf))))
    for (const { org, name, stored } of dataset.tasks) {
      const folder = join(fixture.folder, `unpacked-${name}`)
      await fixture.store.unpack(stored, folder)
      for (const [path, text] of listTaskFiles(`${org}/${name}`))
        expect(await readFile(join(folder, path), 'utf8')).toBe(text)
      expect((await readdir(folder)).length).toBe(new Set(listTaskFiles(name).map(([path]) => path.split('/')[0])).size)
    }
    expect(await fixture.leftovers()).toEqual([])
  })

  test('does not download stored tasks again unless requested, and still inspects them', async () => {
    const dataset = await downloaded(await fixture.resolveDataset(subject.registry, 'lab/pair'))
    const fetched: string[] = []
    const seen: string[] = []
    const inspect = async ({ name }: { name: string }) => void seen.push(name)
    const registry = watched(subject.registry, fetched)

    const again = await fixture.download(registry, dataset, { inspect })
    expect([again.kind, fetched, seen.toSorted()]).toEqual(['downloaded', [], ['a', 'b']])

    await fixture.download(registry, dataset, { inspect, reuse: false })
    expect([fetched.toSorted(), seen.length]).toEqual([['a', 'b'], 4])
  })

  test('refuses a dataset stored as JSON whose content has changed', async () => {
    const dataset = await downloaded(await fixture.resolveDataset(subject.registry, 'lab/pair'))
    const [first, ...others] = JSON.parse(JSON.stringify(dataset)).tasks
    const changed = { ...dataset, tasks: [{ ...first, digest: `sha256:${'1'.repeat(64)}` }, ...others] }

    const result = await fixture.download(subject.registry, changed, { reuse: false })

    expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason: 'digest_mismatch' }] })
    expect(fixture.index.has(`sha256:${'1'.repeat(64)}`)).toBe(false)
    expect(await fixture.leftovers()).toEqual([])
  })

  test('reports progress in tasks and bytes', async () => {
    const dataset = await fixture.resolveDataset(subject.registry, 'lab/pair')
    const seen: DownloadProgress[] = []

    await fixture.download(subject.registry, dataset, { reuse: false, onProgress: (progress) => seen.push(progress) })

    expect(seen.map(({ done, total }) => [done, total])).toEqual([
      [1, 2],
      [2, 2],
    ])
    expect(seen[1]?.bytes).toBeGreaterThan(100)
  })

  test('an aborted download throws the abort reason', async () => {
    const dataset = await fixture.resolveDataset(subject.registry, 'lab/pair')
    const stopped = new AbortController()
    const reason = new Error('enough')
    const inspect = async () => stopped.abort(reason)

    await expect(
      fixture.download(subject.registry, dataset, { signal: stopped.signal, inspect, reuse: false }),
    ).rejects.toBe(reason)
    expect(await fixture.leftovers()).toEqual([])
  })
})
