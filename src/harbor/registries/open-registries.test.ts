import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDownloadFixture, type DownloadFixture } from '../../../test/support/harbor/download-fixture.ts'
import { writeTask } from '../../../test/support/harbor/registry-fixtures.ts'
import { watchLoop } from '../../../test/support/loop-delay.ts'
import { startPackageRegistry } from '../../../test/support/package-registry.ts'
import { isRegistryName, openRegistries } from './open-registries.ts'
import type { Registry } from './registry.ts'

let fixture: DownloadFixture
beforeAll(async () => {
  fixture = await createDownloadFixture()
})
afterAll(async () => fixture[Symbol.asyncDispose]())

/** An unreachable server. */
const NOWHERE = { harborUrl: 'http://127.0.0.1:9', harborPublicKey: 'public' }
const open = (...names: string[]): Registry => openRegistries({ names, ...NOWHERE }, fixture)

test.each([
  ['assay/quick', 5],
  ['assay/polyglot', 24],
])('resolves and downloads the sample %s with %i tasks and the digests of Harbor', async (name, count) => {
  const digests = JSON.parse(
    await readFile(fileURLToPath(new URL('../../../samples/digests.json', import.meta.url)), 'utf8'),
  )
  const registry = open('samples')

  const dataset = await fixture.resolveDataset(registry, name)
  const result = await fixture.download(registry, dataset)

  expect(dataset.tasks).toHaveLength(count)
  expect(dataset.tasks.map((task) => [task.org, task.digest])).toEqual(
    dataset.tasks.map((task) => ['assay', digests[task.name]]),
  )
  expect(result).toMatchObject({ kind: 'downloaded', dataset: { digest: dataset.digest } })
})

test('uses the first registry that knows a name and opens the dataset there', async () => {
  await writeTask(join(fixture.folder, 'one/assay/quick/own'), 'assay/own')
  const registry = open(`dir:${fixture.folder}/one`, 'samples', 'harbor')

  const own = await fixture.resolveDataset(registry, 'assay/quick')
  const sample = await fixture.resolveDataset(registry, 'assay/polyglot')

  expect([own.tasks.length, own.registry, sample.registry]).toEqual([1, `dir:${fixture.folder}/one`, 'samples'])
  expect(await fixture.download(registry, own)).toMatchObject({ kind: 'downloaded' })
  await expect(fixture.download(open('samples'), own)).rejects.toMatchObject({ isPermanent: true })
})

test('does not skip an unavailable registry', async () => {
  await using server = await startPackageRegistry()
  const settings = { harborUrl: server.url, harborPublicKey: server.publicKey }
  server.misbehave({ on: '/', status: 503, headers: { 'retry-after': '3600' }, times: 9 })

  const first = openRegistries({ names: ['harbor', 'samples'], ...settings }, fixture)
  const last = openRegistries({ names: ['samples', 'harbor'], ...settings }, fixture)

  await expect(fixture.resolve(first, 'assay/quick')).rejects.toMatchObject({
    name: 'RegistryUnavailable',
    message: expect.stringMatching(/^The registry harbor is unavailable/),
    retryAfterMs: 3_600_000,
  })
  expect(await fixture.resolve(last, 'assay/quick@9')).toMatchObject({ kind: 'other_versions', registry: 'samples' })
  expect(await fixture.resolveDataset(last, 'assay/quick')).toMatchObject({ registry: 'samples' })
})

test('validates registry names', () => {
  const good = ['harbor', 'samples', 'dir:/srv/datasets', 'https://example.org/registry.json', './registry.json']
  const bad = ['', 'hub', 'dir:', 'ftp://example.org/registry.json', 'https://example.org', 'git@host:x.json']

  expect([...good, ...bad].filter(isRegistryName)).toEqual(good)
})

const COMMIT = 'a'.repeat(40)
/** Writes a list with one dataset, `lab/d`, and returns its path. */
async function writeList(version: string, description: string): Promise<string> {
  const path = join(await mkdtemp(join(fixture.folder, 'list-')), 'registry.json')
  const tasks = [{ name: 'lab/a', path: 'a', git_url: 'https://git.example.org/a.git', git_commit_id: COMMIT }]
  await writeFile(path, JSON.stringify([{ name: 'lab/d', version, description, tasks }]))
  return path
}

test('makes the description of a dataset storable and short', async () => {
  const hostile = await writeList('1.0', `\0 \ud800 ${'long '.repeat(1e6)}`)
  const { description } = await fixture.resolveDataset(open(hostile), 'lab/d')
  expect(description.startsWith('\uFFFD \uFFFD long')).toBe(true)
  expect(description.length).toBeLessThanOrEqual(5000)
  const escaped = await writeList('1.0', String.raw`\u0000 in a pattern`)
  expect((await fixture.resolveDataset(open(escaped), 'lab/d')).description).toBe(String.raw`\u0000 in a pattern`)
})

test.each([
  ['NUL', '1\0'],
  ['a lone surrogate', '1\udfff'],
  ['an escape sequence', '1\u001b[2J'],
  ['too many characters', '1'.repeat(201)],
])('refuses a version with %s', async (_, version) => {
  const registry = open(await writeList(version, ''))
  expect(await fixture.resolve(registry, 'lab/d')).toMatchObject({ kind: 'invalid' })
})

test.each([
  ['nested ten million levels deep', () => `${'['.repeat(1e7)}${']'.repeat(1e7)}`],
  ['with a million invalid entries', () => `[${Array(1e6).fill('{"name":"lab/d"}').join()}]`],
])('reads a list %s without blocking the event loop', { timeout: 120_000 }, async (_, build) => {
  const path = join(await mkdtemp(join(fixture.folder, 'list-')), 'registry.json')
  await writeFile(path, build())
  const loop = watchLoop()
  await expect(fixture.resolve(open(path), 'lab/d')).rejects.toMatchObject({ isPermanent: true })
  expect(loop.percentile(1)).toBeLessThan(500)
})
