import { mkdir, mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { buildOwnedPrefix, listOrphans } from '../sandboxes/kernel/ownership.ts'
import { removeTree } from '../sandboxes/kernel/run-program.ts'

const FOLDER_SUFFIX = '.trial'

/** Opens a temporary folder whose name identifies this process, so that it is removed even if the process dies. */
export async function openScratchFolder(parent: string): Promise<AsyncDisposable & { path: string }> {
  await mkdir(parent, { recursive: true })
  const path = await mkdtemp(join(parent, await buildOwnedPrefix(FOLDER_SUFFIX)))
  return { path, [Symbol.asyncDispose]: () => removeTree(path) }
}

/** Removes the folders of dead processes. Returns their number. */
export async function reapScratchFolders(parent: string): Promise<number> {
  const names = await listOrphans(parent, FOLDER_SUFFIX)
  for (const name of names) await removeTree(join(parent, name))
  return names.length
}
