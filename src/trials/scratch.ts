import { mkdir, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { listOrphans, ownedPrefix } from '../sandboxes/kernel/owned-names.ts'
import { removeTree } from '../sandboxes/local/remove-tree.ts'

const KIND = '.trial'

/** A folder for what a trial mounts. Its name tells whose it is, so that it goes even when that process has died. */
export async function openScratch(parent: string): Promise<AsyncDisposable & { path: string }> {
  await mkdir(parent, { recursive: true })
  const path = await mkdtemp(join(parent, await ownedPrefix(KIND)))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes those whose process is dead. Answers how many. */
export async function reapScratch(parent: string): Promise<number> {
  const names = await listOrphans(parent, KIND)
  for (const name of names) await removeTree(join(parent, name))
  return names.length
}
