import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'

type TreeDigestOptions = {
  /** True if files of another user are the same, as for a build, which copies files as root's. */
  ignoresOwners?: boolean
}

/** Returns a digest of a folder: names, types, modes, owners and contents. Times are ignored. */
export async function treeDigest(folder: string, { ignoresOwners = false }: TreeDigestOptions = {}): Promise<string> {
  const hash = createHash('sha256')
  await addEntry(hash, folder, '', ignoresOwners)
  return hash.digest('hex')
}

async function addEntry(hash: Hash, top: string, path: string, ignoresOwners: boolean): Promise<void> {
  const full = join(top, path)
  const stats = await lstat(full)
  const owners = ignoresOwners ? [] : [stats.uid, stats.gid]
  const metadata = [path, stats.mode, ...owners, stats.isDirectory() ? 0 : stats.size, stats.rdev]
  hash.update(`${JSON.stringify(metadata)}\n`)
  if (stats.isSymbolicLink()) hash.update(await readlink(full))
  if (stats.isFile()) for await (const chunk of createReadStream(full)) hash.update(chunk)
  if (!stats.isDirectory()) return
  for (const name of (await readdir(full)).sort()) await addEntry(hash, top, join(path, name), ignoresOwners)
}
