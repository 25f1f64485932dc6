import { mkdir, readdir, rename, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { hasCode } from '../../platform/blobs/error-codes.ts'
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
  if (await ('digest' in part ? use(place) : exists(place))) return place
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

/** Whether it is there; and if so, it was used just now. */
async function use(place: string): Promise<boolean> {
  const now = new Date()
  try {
    await utimes(place, now, now)
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
}

const SENT = /^sent-[0-9a-f]{64}$/
/** Much longer than any trial. */
const UNUSED_MAX_MS = 7 * 24 * 60 * 60 * 1000

/** Removes what workspaces have sent and no trial has used for days. It is installed again when one wants it. */
export async function sweepSent(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(ifMissing([])))
    if (SENT.test(name)) await sweepOne(folder, join(folder, name))
}

/** Out of the way at once: what lies in its place is whole. */
async function sweepOne(folder: string, place: string): Promise<void> {
  const found = await stat(place).catch(ifMissing(undefined)) // another process may sweep, too
  if (!found || Date.now() - found.mtimeMs < UNUSED_MAX_MS) return
  await using draft = await openDraft(folder)
  await rename(place, join(draft.path, 'old')).catch(ifMissing(undefined))
}

const ifMissing =
  <T>(instead: T) =>
  (error: unknown): T => {
    if (hasCode(error, 'ENOENT')) return instead
    throw error
  }

async function bringSent({ digest }: { digest: string }, tree: string, { openSent }: Installing): Promise<void> {
  const archive = await openSent?.(digest)
  if (!archive)
    throw new HarnessUnfit(`The bundle ${digest} is not there any more. Send its archive again, then resume.`)
  await unpackSent(archive, tree)
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
