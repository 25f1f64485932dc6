import { posix } from 'node:path'
import { expect, test, vi } from 'vitest'
import { readTarEntries } from '../../harbor/tar-reader.ts'
import { tarEnd, tarHeader } from './tar-writer.ts'

const FOLDER = { type: 'Directory' as const, mode: 0o755, uid: 0, gid: 0, size: 0 }

async function readPaths(tar: Buffer[]): Promise<string[]> {
  const paths: string[] = []
  const stream = (async function* () {
    yield* tar
  })()
  for await (const { path } of readTarEntries(stream)) paths.push(path)
  return paths
}

test('writes long paths completely', async () => {
  const paths = ['short/', `${'x'.repeat(99)}/`, `${'ä'.repeat(60)}/`, `${'d/'.repeat(300)}`, `${'x'.repeat(200)}/😀/`]
  const tar = [...paths.map((path) => tarHeader({ ...FOLDER, path })), tarEnd()]
  expect(await readPaths(tar)).toEqual(paths)
})

test('a deep path costs no more steps than a shallow one', () => {
  const steps = vi.spyOn(posix, 'dirname')
  const count = (depth: number): number => {
    steps.mockClear()
    tarHeader({ ...FOLDER, path: 'd/'.repeat(depth) })
    return steps.mock.calls.length
  }
  expect(count(2000)).toBe(count(2))
  steps.mockRestore()
})
