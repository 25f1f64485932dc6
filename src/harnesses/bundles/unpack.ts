import { chmod, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { extract } from 'tar'
import type { Tarball } from './bundle.ts'

/** Unpacks archives at their paths. Nothing below can be changed afterwards, and everyone may read and run it. */
export async function unpack(tarballs: Tarball[], files: Map<string, string>, tree: string): Promise<void> {
  for (const { path, integrity } of tarballs) {
    const file = files.get(integrity)
    if (file === undefined) throw new Error(`There is no archive for ${path}.`)
    const cwd = join(tree, path)
    await mkdir(cwd, { recursive: true })
    await extract({ file, cwd, strip: 1, preserveOwner: false })
  }
  // The folder itself stays its owner's to move.
  for (const entry of await readdir(tree)) await seal(join(tree, entry))
}

/** Some archives hold programs that are not marked as such. */
async function seal(path: string): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true })
  await Promise.all(
    entries.map((entry) => {
      const inner = join(path, entry.name)
      if (entry.isDirectory()) return seal(inner)
      return entry.isFile() ? chmod(inner, 0o555) : undefined
    }),
  )
  await chmod(path, 0o555)
}
