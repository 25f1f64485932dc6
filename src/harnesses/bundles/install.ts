import { mkdir, readdir, rename, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { hasCode } from '../../platform/blobs/error-codes.ts'
import { HarnessUnfit } from '../harness-unfit.ts'
import { type Bundle, type BundlePart, listTarballs, type Tarball, toFolderName } from './bundle.ts'
import { fetchTarballs } from './fetch-tarballs.ts'
import { createDraft, sweepDrafts, withInstallLock } from './install-lock.ts'
import { unpackTarballs } from './unpack.ts'
import { unpackUploaded } from './uploaded-archive.ts'

export type InstallOptions = {
  /** Folder of all installed bundles. */
  folder: string
  signal: AbortSignal
  /** Reports how many archives of a part have been fetched. */
  onProgress: (name: string, done: number, total: number) => void
  /** Opens an uploaded archive by its digest. Returns undefined if it has been deleted. */
  openUploaded?: ((digest: string) => Promise<Readable | undefined>) | undefined
}

export type InstalledFolder = { source: string; target: string }

/** Installs the missing folders of a bundle and returns all of them. Throws HarnessUnfit if that is impossible. */
export async function install({ parts }: Bundle, options: InstallOptions): Promise<InstalledFolder[]> {
  const installed: InstalledFolder[] = []
  for (const part of parts) installed.push({ source: await installPart(part, options), target: part.target })
  return installed
}

/** Returns true if every part is installed. */
export async function isInstalled({ parts }: Bundle, folder: string): Promise<boolean> {
  const found = await Promise.all(parts.map((part) => exists(join(folder, toFolderName(part)))))
  return found.every(Boolean)
}

async function installPart(part: BundlePart, options: InstallOptions): Promise<string> {
  const target = join(options.folder, toFolderName(part))
  if (await ('digest' in part ? markUsed(target) : exists(target))) return target
  await mkdir(options.folder, { recursive: true })
  await sweepDrafts(options.folder)
  await withInstallLock(target, options.signal, async () => {
    if (!(await exists(target))) await createFolder(target, part, options)
  })
  return target
}

/** Creates a folder atomically: the content is written to a draft and renamed, so that a crash leaves nothing partial. */
async function createFolder(target: string, part: BundlePart, options: InstallOptions): Promise<void> {
  await using draft = await createDraft(options.folder)
  const tree = join(draft.path, 'tree')
  await mkdir(tree)
  if ('digest' in part) await unpackUploadedPart(part, tree, options)
  else await fetchParts(part.id, listTarballs(part.lock), { tree, archives: join(draft.path, 'archives') }, options)
  options.signal.throwIfAborted()
  await rename(tree, target).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error // Otherwise another process was faster.
  })
}

type InstallFolders = { tree: string; archives: string }

async function fetchParts(
  id: string,
  tarballs: Tarball[],
  { tree, archives }: InstallFolders,
  options: InstallOptions,
) {
  const { signal, onProgress } = options
  if (tarballs.length === 0) throw new HarnessUnfit(`${id} is not available for this machine's architecture.`)
  await mkdir(archives)
  const onFetched = (done: number): void => onProgress(id, done, tarballs.length)
  const files = await fetchTarballs(tarballs, { folder: archives, signal, onFetched })
  await unpackTarballs(tarballs, files, tree)
}

/** Updates the time of last use. Returns false if the folder does not exist. */
async function markUsed(target: string): Promise<boolean> {
  const now = new Date()
  try {
    await utimes(target, now, now)
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
}

const UPLOADED_FOLDER = /^sent-[0-9a-f]{64}$/
/** Longer than any trial. */
const UNUSED_MAX_MS = 7 * 24 * 60 * 60 * 1000

/** Removes uploaded bundles that no trial has used for a week. They are installed again when needed. */
export async function sweepUploaded(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(ifMissing([])))
    if (UPLOADED_FOLDER.test(name)) await sweepOne(folder, join(folder, name))
}

/** Renames the folder before deleting it, so that no partially deleted folder is ever used. */
async function sweepOne(folder: string, target: string): Promise<void> {
  const stats = await stat(target).catch(ifMissing(undefined)) // Another process may sweep at the same time.
  if (!stats || Date.now() - stats.mtimeMs < UNUSED_MAX_MS) return
  await using draft = await createDraft(folder)
  await rename(target, join(draft.path, 'old')).catch(ifMissing(undefined))
}

const ifMissing =
  <T>(instead: T) =>
  (error: unknown): T => {
    if (hasCode(error, 'ENOENT')) return instead
    throw error
  }

async function unpackUploadedPart(
  { digest }: { digest: string },
  tree: string,
  { openUploaded }: InstallOptions,
): Promise<void> {
  const archive = await openUploaded?.(digest)
  if (!archive) throw new HarnessUnfit(`The bundle ${digest} has been deleted. Upload its archive again, then resume.`)
  await unpackUploaded(archive, tree)
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )
