import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ImageTimeout, type PrepareOptions } from '../sandbox.ts'

/** Architecture of this machine in the words of Docker and OCI. */
export const IMAGE_ARCHITECTURE: string = process.arch === 'x64' ? 'amd64' : process.arch

/** Prepares an image within `timeoutSec`. At the timeout the signal aborts, and ImageTimeout is thrown. */
export async function prepareInTime<T>(
  options: PrepareOptions,
  prepare: (options: PrepareOptions) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(options.timeoutSec * 1000)
  try {
    return await prepare({ ...options, signal: AbortSignal.any([options.signal, timeout]) })
  } catch (error) {
    if (!timeout.aborted || options.signal.aborted) throw error
    throw new ImageTimeout(`The image was not ready after ${options.timeoutSec} seconds.`, { cause: error })
  }
}

/** Builds that are under way in this process. */
const RUNNING_BUILDS = new Map<string, Promise<unknown>>()

type SharedBuild<T> = {
  find: () => Promise<T | undefined>
  build: () => Promise<T>
  signal: AbortSignal
}

/** Builds an image once, also for concurrent requests. If a concurrent build fails or is canceled, this call builds it. */
export async function buildOnce<T>(id: string, shared: SharedBuild<T>): Promise<T> {
  const known = await shared.find()
  if (known !== undefined) return known
  shared.signal.throwIfAborted()
  const running = RUNNING_BUILDS.get(id)
  if (running) {
    await running.catch(() => {})
    return buildOnce(id, shared)
  }
  const building = shared.build()
  RUNNING_BUILDS.set(id, building)
  try {
    return await building
  } finally {
    RUNNING_BUILDS.delete(id)
  }
}

type TreeDigestOptions = {
  /** Leaves out the owners of files. Set for builds, which copy all files as root. */
  ignoresOwners?: boolean
}

/** Returns a digest of a folder: names, types, modes, owners and contents. Times are ignored. */
export async function computeTreeDigest(
  folder: string,
  { ignoresOwners = false }: TreeDigestOptions = {},
): Promise<string> {
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
