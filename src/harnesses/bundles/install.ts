import { mkdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { HarnessUnfit } from '../harness-unfit.ts'
import { type Bundle, folderNameOf, type Part, type Tarball, tarballsFor } from './bundle.ts'
import { fetchTarballs } from './fetch-tarballs.ts'
import { unpackSent } from './sent-archive.ts'
import { openDraft, sweepDrafts, withTurn } from './turns.ts'
import { unpack } from './unpack.ts'

export type Installing = {
  /** Where bundles lie on this machine. */
  folder: string
  signal: AbortSignal
  /** Archives that are there, of how many. */
  onProgress: (name: string, done: number, total: number) => void
  /** An archive that a workspace has sent, by its digest. Undefined: it is not there any more. */
  openSent?: (digest: string) => Promise<Readable | undefined>
}

export type Installed = { source: string; target: string }

/** The folders of a bundle, installed if they are not there yet. Throws HarnessUnfit when they cannot be had. */
export async function install({ parts }: Bundle, options: Installing): Promise<Installed[]> {
  const installed: Installed[] = []
  for (const part of parts) installed.push({ source: await installPart(part, options), target: part.target })
  return installed
}

/** Whether all of it is there already. */
export async function isInstalled({ parts }: Bundle, folder: string): Promise<boolean> {
  const found = await Promise.all(parts.map((part) => exists(join(folder, folderNameOf(part)))))
  return found.every(Boolean)
}

async function installPart(part: Part, options: Installing): Promise<string> {
  const place = join(options.folder, folderNameOf(part))
  if (await exists(place)) return place
  await mkdir(options.folder, { recursive: true })
  await sweepDrafts(options.folder)
  await withTurn(place, options.signal, async () => {
    if (!(await exists(place))) await make(place, part, options)
  })
  return place
}

/** Beside its place, and moved there when it is complete: what is there is whole, whenever this process dies. */
async function make(place: string, part: Part, options: Installing): Promise<void> {
  await using draft = await openDraft(options.folder)
  const tree = join(draft.path, 'tree')
  await mkdir(tree)
  if ('digest' in part) await bringSent(part, tree, options)
  else await bringTarballs(part.id, tarballsFor(part.lock), { tree, archives: join(draft.path, 'archives') }, options)
  options.signal.throwIfAborted()
  await rename(tree, place).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error // else another process was quicker
  })
}

type Places = { tree: string; archives: string }

async function bringTarballs(id: string, tarballs: Tarball[], { tree, archives }: Places, options: Installing) {
  const { signal, onProgress } = options
  if (tarballs.length === 0) throw new HarnessUnfit(`There is no ${id} for machines of this kind.`)
  await mkdir(archives)
  const onFetched = (done: number): void => onProgress(id, done, tarballs.length)
  const files = await fetchTarballs(tarballs, { folder: archives, signal, onFetched })
  await unpack(tarballs, files, tree)
}

async function bringSent({ digest }: { digest: string }, tree: string, { openSent }: Installing): Promise<void> {
  const archive = await openSent?.(digest)
  if (!archive) throw new HarnessUnfit(`The bundle ${digest} is not there.`)
  await unpackSent(archive, tree)
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
