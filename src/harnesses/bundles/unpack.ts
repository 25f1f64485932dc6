import type { Dirent } from 'node:fs'
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
  await seal(tree)
}

/** Everyone may read and run what is in it, and nobody change it. The folder itself stays its owner's to move. */
export async function seal(tree: string): Promise<void> {
  for (const entry of await readdir(tree, { withFileTypes: true })) await sealEntry(tree, entry)
}

/** Some archives hold programs that are not marked as such. A link is what it leads to. */
async function sealEntry(folder: string, entry: Dirent): Promise<void> {
  const path = join(folder, entry.name)
  if (entry.isSymbolicLink()) return
  if (entry.isDirectory()) {
    const entries = await readdir(path, { withFileTypes: true })
    await Promise.all(entries.map((inner) => sealEntry(path, inner)))
  }
  await chmod(path, 0o555)
}
