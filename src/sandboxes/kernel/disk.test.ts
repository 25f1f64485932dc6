import { mkdtemp, open, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { watchFolders } from './disk.ts'

async function isNoticed(
  fill: (folder: string) => Promise<unknown>,
  limits: { maxMb: number; maxInodes?: number } = { maxMb: 4 },
): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-disk-'))
  const watch = watchFolders({ folders: [folder], ...limits, processes: async () => [process.pid] }, () => {})
  try {
    await fill(folder)
    await vi.waitFor(async () => expect(await watch.isFull()).toBe(true), { timeout: 10_000 })
    return true
  } finally {
    watch.stop()
    await rm(folder, { recursive: true })
  }
}

test('a deleted file that is still open counts towards the disk limit', async () => {
  await using files = new AsyncDisposableStack()
  const fill = async (folder: string) => {
    const file = files.use(await open(join(folder, 'big'), 'w'))
    await unlink(join(folder, 'big'))
    await file.writeFile(Buffer.alloc(20e6))
  }
  expect(await isNoticed(fill)).toBe(true)
})

const createEmptyFiles = async (folder: string) => {
  for (let n = 0; n < 3000; n += 1) await writeFile(join(folder, `${n}`), '')
}

test('empty files count towards the disk limit', async () => {
  expect(await isNoticed(createEmptyFiles)).toBe(true)
})

test('a large disk limit does not allow any number of files', async () => {
  expect(await isNoticed(createEmptyFiles, { maxMb: 100_000, maxInodes: 2000 })).toBe(true)
})
