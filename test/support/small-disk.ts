import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Mounts a filesystem of a limited size and number of files, on which a disk can be filled without harm. Requires root. */
export async function mountSmallDisk(sizeMb: number, inodes: number): Promise<AsyncDisposable & { path: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-small-disk-'))
  const image = join(folder, 'image')
  const path = join(folder, 'disk')
  await mkdir(path)
  await writeFile(image, '')
  await truncate(image, sizeMb * 1024 * 1024)
  await run('mkfs.ext4', ['-q', '-m', '0', '-N', String(inodes), image])
  await run('mount', ['-o', 'loop', image, path])
  return {
    path,
    async [Symbol.asyncDispose]() {
      await run('umount', [path]).catch(() => run('umount', ['-l', path]))
      await rm(folder, { recursive: true, force: true })
    },
  }
}
