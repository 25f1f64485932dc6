import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Digest } from '../../platform/blobs/blob.ts'
import { datasetDigest } from '../digest.ts'
import { readTask } from '../read-task.ts'
import { inMemory } from '../source.ts'
import type { DownloadedDataset, Progress } from './download.ts'
import type { Registry, ResolvedDataset } from './registry.ts'
import { filesOf, PAIR, SUBJECTS, type Subject } from './testing/subjects.ts'
import { openWorkbench, type Workbench } from './testing/workbench.ts'

const digestOf = async (name: string): Promise<Digest> => (await readTask(inMemory(name, filesOf(name)))).digest
const SORTED = PAIR.toSorted()

/** The same registry, which counts what is asked of it. */
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

describe.each(SUBJECTS)('%s', (_, start) => {
  let bench: Workbench
  let subject: Subject
  beforeAll(async () => {
    bench = await openWorkbench()
    subject = await start(bench)
  })
  afterAll(async () => {
    await subject[Symbol.asyncDispose]()
    await bench[Symbol.asyncDispose]()
  })

  /** Some say which versions there are. */
  const otherVersions = () =>
    subject.versions
      ? { kind: 'other_versions', registry: subject.registry.name, versions: subject.versions }
      : { kind: 'unknown' }

  async function downloaded(dataset: ResolvedDataset): Promise<DownloadedDataset> {
    const result = await bench.download(subject.registry, dataset)
    if (result.kind !== 'downloaded') throw new Error(JSON.stringify(result))
    return result.dataset
  }

  test('a dataset is found by latest, and its tasks stand in one order', async () => {
    const dataset = await bench.found(subject.registry, 'lab/pair')

    expect(dataset).toMatchObject({ org: 'lab', name: 'pair', ref: 'latest', registry: subject.registry.name })
    expect(dataset.tasks.map(({ org, name }) => `${org}/${name}`)).toEqual(SORTED)
    expect(JSON.parse(JSON.stringify(dataset))).toEqual(dataset)
    expect(await bench.leftovers()).toEqual([])
  })

  test('a dataset is found by its tag, and by no other', async () => {
    const dataset = await bench.found(subject.registry, 'lab/pair@1.0')

    expect(dataset.ref).toBe('1.0')
    expect({ ...dataset, ref: 'latest' }).toEqual(await bench.found(subject.registry, 'lab/pair'))
    for (const other of ['1.1', '77'])
      expect(await bench.resolve(subject.registry, `lab/pair@${other}`)).toEqual(otherVersions())
  })

  test('a dataset is found by its digest, where digests are known before the download', async () => {
    const digest = datasetDigest(await Promise.all(PAIR.map(digestOf)))
    const resolution = await bench.resolve(subject.registry, `lab/pair@${digest}`)

    if (subject.knowsDigests) expect(resolution).toMatchObject({ kind: 'found', dataset: { digest } })
    else expect(resolution).toEqual(otherVersions())
    expect(await bench.resolve(subject.registry, `lab/pair@sha256:${'f'.repeat(64)}`)).toEqual(otherVersions())
  })

  test('an unknown dataset, an empty one, and a task that is none', async () => {
    expect(await bench.resolve(subject.registry, 'lab/nobody')).toEqual({ kind: 'unknown' })
    expect(await bench.resolve(subject.registry, 'nobody/pair')).toEqual({ kind: 'unknown' })
    expect(await bench.resolve(subject.registry, 'lab/none')).toEqual({ kind: 'empty' })
    const kind = subject.knowsTasks ? 'not_a_dataset' : 'unknown'
    expect(await bench.resolve(subject.registry, 'lab/a')).toEqual({ kind })
  })

  test('more than 500 tasks are counted and nothing else', async () => {
    expect(await bench.resolve(subject.registry, 'lab/crowd')).toEqual({ kind: 'too_many', count: 501 })
    expect(await bench.resolve(subject.registry, 'lab/pair', { tasksMax: 1 })).toEqual({ kind: 'too_many', count: 2 })
    expect(await bench.resolve(subject.registry, 'lab/pair', { tasksMax: 2 })).toMatchObject({ kind: 'found' })
  })

  test('a download has the digests that Harbor would compute, and the files', async () => {
    const dataset = await downloaded(await bench.found(subject.registry, 'lab/pair'))

    expect(dataset.tasks.map(({ digest }) => digest)).toEqual(await Promise.all(SORTED.map(digestOf)))
    expect(dataset.digest).toBe(datasetDigest(await Promise.all(PAIR.map(digestOf))))
    for (const { org, name, stored } of dataset.tasks) {
      const folder = join(bench.folder, `unpacked-${name}`)
      await bench.store.unpack(stored, folder)
      for (const [path, text] of filesOf(`${org}/${name}`))
        expect(await readFile(join(folder, path), 'utf8')).toBe(text)
      expect((await readdir(folder)).length).toBe(new Set(filesOf(name).map(([path]) => path.split('/')[0])).size)
    }
    expect(await bench.leftovers()).toEqual([])
  })

  test('what is stored is not downloaded again, unless that is asked for, and is seen all the same', async () => {
    const dataset = await downloaded(await bench.found(subject.registry, 'lab/pair'))
    const fetched: string[] = []
    const seen: string[] = []
    const inspect = async ({ name }: { name: string }) => void seen.push(name)
    const registry = watched(subject.registry, fetched)

    const again = await bench.download(registry, dataset, { inspect })
    expect([again.kind, fetched, seen.toSorted()]).toEqual(['downloaded', [], ['a', 'b']])

    await bench.download(registry, dataset, { inspect, reuse: false })
    expect([fetched.toSorted(), seen.length]).toEqual([['a', 'b'], 4])
  })

  test('a dataset that was stored as JSON and now has other content is refused', async () => {
    const dataset = await downloaded(await bench.found(subject.registry, 'lab/pair'))
    const [first, ...others] = JSON.parse(JSON.stringify(dataset)).tasks
    const changed = { ...dataset, tasks: [{ ...first, digest: `sha256:${'1'.repeat(64)}` }, ...others] }

    const result = await bench.download(subject.registry, changed, { reuse: false })

    expect(result).toMatchObject({ kind: 'refused', faults: [{ task: 'lab/a', reason: 'digest_mismatch' }] })
    expect(bench.index.has(`sha256:${'1'.repeat(64)}`)).toBe(false)
    expect(await bench.leftovers()).toEqual([])
  })

  test('progress counts tasks and bytes', async () => {
    const dataset = await bench.found(subject.registry, 'lab/pair')
    const seen: Progress[] = []

    await bench.download(subject.registry, dataset, { reuse: false, onProgress: (progress) => seen.push(progress) })

    expect(seen.map(({ done, total }) => [done, total])).toEqual([
      [1, 2],
      [2, 2],
    ])
    expect(seen[1]?.bytes).toBeGreaterThan(100)
  })

  test('whoever stops a download gets their own reason back', async () => {
    const dataset = await bench.found(subject.registry, 'lab/pair')
    const stopped = new AbortController()
    const reason = new Error('enough')
    const inspect = async () => stopped.abort(reason)

    await expect(
      bench.download(subject.registry, dataset, { signal: stopped.signal, inspect, reuse: false }),
    ).rejects.toBe(reason)
    expect(await bench.leftovers()).toEqual([])
  })
})
