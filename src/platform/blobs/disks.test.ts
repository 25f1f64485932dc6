import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { openBlobs } from './blobs.ts'

const run = promisify(execFile)
const cleanUp = new AsyncDisposableStack()
afterAll(() => cleanUp.disposeAsync())

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-disks-'))
  cleanUp.defer(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** A disk of its own, which only root may make. */
async function mountDisk(options: string): Promise<{ folder: string; problem?: string }> {
  const folder = await temporaryFolder()
  try {
    await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder])
    cleanUp.defer(async () => {
      await run('umount', [folder])
    })
    return { folder }
  } catch {
    return { folder, problem: 'this user may not mount a disk' }
  }
}

const small = await mountDisk('size=512k')
const readOnly = await mountDisk('ro,size=64k')
const S3_NOWHERE = 's3://bucket?endpoint=http://127.0.0.1:9&region=eu-west-1&pathStyle=1'
const chunks = (count: number) => Readable.from(Array.from({ length: count }, () => randomBytes(64 * 1024)))

describe.skipIf(small.problem)(`a full disk${small.problem ? `: skipped, ${small.problem}` : ''}`, () => {
  test('is reported, keeps existing blobs and frees the space of the failed write', async () => {
    const { folder } = small
    const blobs = openBlobs(`file:${folder}`, folder)
    const { digest } = await blobs.put(Buffer.from('there before'))
    const before = await filesIn(folder)

    for (const content of [chunks(16), randomBytes(1024 * 1024)]) {
      await expect(blobs.put(content)).rejects.toThrow(`Cannot use ${folder} (ASSAY_BLOBS): the disk is full.`)
    }

    expect(await filesIn(folder)).toEqual(before)
    expect((await buffer(await blobs.get(digest))).toString()).toBe('there before')
    expect(await blobs.put(chunks(4))).toMatchObject({ bytes: 4 * 64 * 1024 })
  })

  test('under the spool folder of S3 is reported and leaves no partial file', async () => {
    const spoolFolder = join(small.folder, 'spool')

    await expect(openBlobs(S3_NOWHERE, spoolFolder).put(chunks(16))).rejects.toThrow(
      `Cannot use ${spoolFolder}: the disk is full.`,
    )

    expect(await filesIn(spoolFolder)).toEqual([])
  })
})

test.skipIf(readOnly.problem)(
  `a read-only disk is named${readOnly.problem ? `: skipped, ${readOnly.problem}` : ''}`,
  async () => {
    await expect(openBlobs(`file:${readOnly.folder}/blobs`, '/nowhere').check()).rejects.toThrow('read-only')
  },
)

test('reports a file in place of the folder', async () => {
  const path = join(await temporaryFolder(), 'file')
  await writeFile(path, '')

  await expect(openBlobs(`file:${path}`, '/nowhere').check()).rejects.toThrow('a part of this path is a file')
  await expect(openBlobs(`file:${path}/below`, '/nowhere').check()).rejects.toThrow('a part of this path is a file')
})

test('blobs are readable only by the user of the server', async () => {
  const folder = join(await temporaryFolder(), 'blobs')
  const { digest } = await openBlobs(`file:${folder}`, '/nowhere').put(Buffer.from('private'))
  const [shard, name] = [digest.slice(7, 9), digest.slice(7)]

  const modes = [folder, join(folder, 'sha256', shard), join(folder, 'sha256', shard, name)].map(
    async (path) => (await stat(path)).mode & 0o777,
  )

  expect(await Promise.all(modes)).toEqual([0o700, 0o700, 0o600])
})

test('deletes the files of killed processes after a day, and nothing else', async () => {
  const folder = await temporaryFolder()
  const incoming = join(folder, 'incoming')
  const parts = ['blob-00000000-0000-0000-0000-000000000000.part', 'blob-11111111-1111-1111-1111-111111111111.part']
  await mkdir(incoming)
  for (const name of [...parts, 'notes.txt']) await writeFile(join(incoming, name), '')
  const longAgo = new Date(Date.now() - 25 * 60 * 60 * 1000)
  for (const name of ['notes.txt', parts[0] ?? '']) await utimes(join(incoming, name), longAgo, longAgo)

  await openBlobs(`file:${folder}`, '/nowhere').check()

  expect((await readdir(incoming)).sort()).toEqual([parts[1], 'notes.txt'])
})

test.skipIf(process.platform !== 'linux')('no file stays open after a failure', async () => {
  const folder = await temporaryFolder()
  const blobs = openBlobs(`file:${folder}`, folder)
  const nowhere = openBlobs(S3_NOWHERE, folder)
  const content = randomBytes(1024 * 1024)
  const { digest } = await blobs.put(content)
  const openHere = async () => {
    const { stdout } = await run('sh', ['-c', `ls -l /proc/${process.pid}/fd | grep -c ${folder} || true`])
    return Number(stdout)
  }

  for (let round = 0; round < 5; round += 1) {
    await blobs.put(content, { bytesMax: 10 }).catch(() => undefined)
    await blobs.put(content, { expect: `sha256:${'0'.repeat(64)}` }).catch(() => undefined)
    await nowhere.put(content).catch(() => undefined)
    for await (const _ of await blobs.get(digest)) break
  }

  await expect.poll(openHere).toBe(0)
})
