import type { Dirent } from 'node:fs'
import { chmod, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { extract } from 'tar'
import type { Tarball } from './bundle.ts'

/** Unpacks archives into their folders and makes them read-only. */
export async function unpackTarballs(tarballs: Tarball[], files: Map<string, string>, tree: string): Promise<void> {
  for (const { path, integrity } of tarballs) {
    const file = files.get(integrity)
    if (file === undefined) throw new Error(`No archive was fetched for ${path}.`)
    const cwd = join(tree, path)
    await mkdir(cwd, { recursive: true })
    await extract({ file, cwd, strip: 1, preserveOwner: false })
  }
  await makeReadOnly(tree)
}

/** Makes the content of a folder readable and executable for all users and writable for none. */
export async function makeReadOnly(tree: string): Promise<void> {
  for (const entry of await readdir(tree, { withFileTypes: true })) await makeEntryReadOnly(tree, entry)
}

/** Sets the executable bit, because some archives lack it. Links are skipped. */
async function makeEntryReadOnly(folder: string, entry: Dirent): Promise<void> {
  const path = join(folder, entry.name)
  if (entry.isSymbolicLink()) return
  if (entry.isDirectory()) {
    const entries = await readdir(path, { withFileTypes: true })
    await Promise.all(entries.map((inner) => makeEntryReadOnly(path, inner)))
  }
  await chmod(path, 0o555)
}
