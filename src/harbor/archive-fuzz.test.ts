import { lstat, readdir, readlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cpuMs } from '../../test/support/cpu-time.ts'
import { temporaryFolder } from '../../test/support/harbor/folders.ts'
import { pax, type RawEntry, rawEntry } from '../../test/support/harbor/raw-tar.ts'
import { toStream } from '../../test/support/harbor/unpacking.ts'
import { newId } from '../platform/ids.ts'
import { unpack } from './archive.ts'
import { ArchiveRefused } from './archive-stream.ts'

const CPU_MS_MAX = 100
const RUNS = process.env.ASSAY_TEST_LONG ? 10_000 : 400

const names = fc.oneof(
  fc.constantFrom(
    'a',
    'A',
    'a/b',
    './a',
    '../a',
    '/a',
    'a/../b',
    'd/',
    'é',
    'e\u0301',
    '..',
    '.',
    '',
    'a\\b',
    'x'.repeat(99),
  ),
  fc.string({ maxLength: 90 }),
)
const sizes = fc.oneof(
  { weight: 9, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.tuple(fc.nat(0o77777777777)) },
)
const entries: fc.Arbitrary<RawEntry> = fc
  .record({
    name: names,
    type: fc.constantFrom('0', '0', '0', '1', '2', '3', '5', '6', '7', 'S', 'L', 'K', 'x', 'g', '\0', 'Z'),
    content: fc.oneof(fc.constant(''), fc.string({ maxLength: 2000 }), names),
    target: names,
    mode: fc.nat(0o7777),
    lie: sizes,
  })
  .map(({ lie: [size], ...entry }) => (size === undefined ? entry : { ...entry, size }))
const extended = fc
  .record({ path: names, linkpath: names, size: fc.nat(3000).map(String) }, { requiredKeys: [] })
  .map(pax)
const archives = fc
  .array(fc.oneof(entries, extended), { maxLength: 8 })
  .map((all) => Buffer.concat([...all.map(rawEntry), Buffer.alloc(1024)]))
const mutated = fc
  .tuple(archives, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }), fc.nat())
  .map(([archive, changes, end]) => {
    for (const [place, byte] of changes) archive[place % archive.length] = byte
    return end % 3 === 0 ? archive.subarray(0, end % archive.length) : archive
  })
const bytes = fc.uint8Array({ maxLength: 3000 }).map((random) => Buffer.from(random))
const hostile = fc
  .tuple(fc.oneof(archives, mutated, bytes), fc.boolean())
  .map(([archive, isZipped]) => (isZipped ? gzipSync(archive) : archive))

test('unpacks or refuses random bytes quickly and writes nothing outside the folder', async () => {
  await fc.assert(
    fc.asyncProperty(
      hostile,
      fc.constantFrom('none', 'inside'),
      fc.integer({ min: 1, max: 2000 }),
      async (archive, links, size) => {
        await using place = await temporaryFolder()
        const attempt = (name: string) =>
          unpack(toStream(archive, size), join(place.path, name), { links }).then(
            () => undefined,
            (error: unknown) => error,
          )
        const before = process.threadCpuUsage()
        const refusal = await attempt('task')
        const { user, system } = process.threadCpuUsage(before)

        if (refusal !== undefined) expect(refusal).toBeInstanceOf(ArchiveRefused)
        expect(await readdir(place.path)).toEqual(refusal === undefined ? ['task'] : [])
        if (refusal === undefined) await expectContained(join(place.path, 'task'))
        // A single slow run may be caused by the machine or the compiler.
        if (user + system > CPU_MS_MAX * 1000) expect(await cpuMs(() => attempt(newId()))).toBeLessThan(CPU_MS_MAX)
      },
    ),
    { numRuns: RUNS },
  )
})

async function expectContained(folder: string): Promise<void> {
  for (const name of await readdir(folder, { recursive: true })) {
    const path = join(folder, name)
    const entry = await lstat(path)
    expect(entry.isFile() || entry.isDirectory() || entry.isSymbolicLink()).toBe(true)
    if (!entry.isDirectory()) expect(entry.nlink).toBe(1)
    if (entry.isFile()) expect([0o644, 0o755]).toContain(entry.mode & 0o7777)
    if (entry.isSymbolicLink()) expect(resolve(dirname(path), await readlink(path)).startsWith(folder)).toBe(true)
  }
}
