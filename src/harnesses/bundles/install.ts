import { mkdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { HarnessUnfit } from '../harness-unfit.ts'
import { type Bundle, folderNameOf, type Lock, type Tarball, tarballsFor } from './bundle.ts'
import { fetchTarballs } from './fetch-tarballs.ts'
import { openDraft, sweepDrafts, withTurn } from './turns.ts'
import { unpack } from './unpack.ts'

export type Installing = {
  /** Where bundles lie on this machine. */
  folder: string
  signal: AbortSignal
  /** Archives that are there, of how many. */
  onProgress: (name: string, done: number, total: number) => void
}

export type Installed = { source: string; target: string }

/** The folders of a bundle, installed if they are not there yet. Throws HarnessUnfit when they cannot be had. */
export async function install({ parts }: Bundle, options: Installing): Promise<Installed[]> {
  const installed: Installed[] = []
  for (const { id, lock, target } of parts) installed.push({ source: await installPart(id, lock, options), target })
  return installed
}

/** Whether all of it is there already. */
export async function isInstalled({ parts }: Bundle, folder: string): Promise<boolean> {
  const found = await Promise.all(parts.map(({ id, lock }) => exists(join(folder, folderNameOf(id, lock)))))
  return found.every(Boolean)
}

async function installPart(id: string, lock: Lock, options: Installing): Promise<string> {
  const place = join(options.folder, folderNameOf(id, lock))
  if (await exists(place)) return place
  const tarballs = tarballsFor(lock)
  if (tarballs.length === 0) throw new HarnessUnfit(`There is no ${id} for machines of this kind.`)
  await mkdir(options.folder, { recursive: true })
  await sweepDrafts(options.folder)
  await withTurn(place, options.signal, async () => {
    if (!(await exists(place))) await make(place, tarballs, { ...options, id })
  })
  return place
}

/** Beside its place, and moved there when it is complete: what is there is whole, whenever this process dies. */
async function make(place: string, tarballs: Tarball[], options: Installing & { id: string }): Promise<void> {
  const { folder, signal, id, onProgress } = options
  await using draft = await openDraft(folder)
  const archives = join(draft.path, 'archives')
  const tree = join(draft.path, 'tree')
  await mkdir(archives)
  await mkdir(tree)
  const onFetched = (done: number): void => onProgress(id, done, tarballs.length)
  const files = await fetchTarballs(tarballs, { folder: archives, signal, onFetched })
  await unpack(tarballs, files, tree)
  signal.throwIfAborted()
  await rename(tree, place).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error // else another process was quicker
  })
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
