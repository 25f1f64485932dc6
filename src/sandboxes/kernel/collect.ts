import { constants } from 'node:fs'
import { open, readdir, readlink } from 'node:fs/promises'
import { posix } from 'node:path'
import { Readable } from 'node:stream'
import type { CollectCaps } from '../sandbox.ts'
import { findInside, type HostPath } from './sandbox-path.ts'
import { PLAIN_MODE, tarEnd, tarHeader, tarPadding } from './tar-writer.ts'

type CollectedType = 'File' | 'Directory' | 'SymbolicLink' | 'Link'
/** A file to collect. `name` is its path in the archive. */
type CollectedFile = HostPath & { name: string; kind: CollectedType; link: string }
type Collection = {
  files: CollectedFile[]
  leftOut: string[]
  bytes: number
  caps: CollectCaps
  /** First names of files with several names, by identity. */
  firstNames: Map<string, string>
}

/** Folders below the collected path that are nested more deeply than this are left out, with everything in them. */
export const COLLECT_DEPTH_MAX = 100
/** Maximum number of names in `leftOut`. */
const LEFT_OUT_MAX = 1000

/** Collects a path as a tar archive. Names in the archive begin with the last part of the path. */
export async function collectTar(
  root: string,
  path: string,
  caps: CollectCaps,
): Promise<{ tar: Readable; leftOut: string[] } | undefined> {
  const top = await findInside(root, path)
  if (top === undefined) return undefined
  const collection: Collection = { files: [], leftOut: [], bytes: 0, caps, firstNames: new Map() }
  await collectEntry(collection, top, posix.basename(path) || '.')
  return { tar: Readable.from(packFiles(collection.files), { objectMode: false }), leftOut: collection.leftOut }
}

async function collectEntry(collection: Collection, source: HostPath, name: string): Promise<void> {
  if (collection.leftOut.length >= LEFT_OUT_MAX) return
  const file = findHardLink(collection, source, name) ?? (await toCollectedFile(source, name))
  if (file === undefined || !isWithinCaps(collection, file) || isTooDeep(name)) {
    collection.leftOut.push(name)
    return
  }
  collection.files.push(file)
  if (file.kind === 'File') collection.bytes += file.stats.size
  if (file.kind !== 'Directory') return
  for (const entry of (await readdir(source.path)).sort()) {
    const inner = await findInside(source.path, entry)
    // The file cannot be opened if its name is not UTF-8.
    if (inner === undefined) collection.leftOut.push(posix.join(name, entry))
    else await collectEntry(collection, inner, posix.join(name, entry))
  }
}

/** Returns a hard link if the file was already found under another name. */
function findHardLink({ caps, firstNames }: Collection, source: HostPath, name: string): CollectedFile | undefined {
  const { dev, ino, nlink, size, mtimeMs } = source.stats
  if (!caps.keepsHardLinks || !source.stats.isFile() || nlink < 2) return undefined
  const identity = [dev, ino, size, mtimeMs].join(' ')
  const link = firstNames.get(identity)
  if (link === undefined) firstNames.set(identity, name)
  return link === undefined ? undefined : { ...source, name, kind: 'Link', link }
}

function isWithinCaps({ files, bytes, caps }: Collection, { kind, stats }: CollectedFile): boolean {
  return files.length < caps.files && (kind !== 'File' || bytes + stats.size <= caps.bytes)
}

/** Reports whether a path of an archive is nested more deeply than is collected. */
export function isTooDeep(name: string): boolean {
  let depth = 0
  for (let at = name.indexOf('/'); at !== -1; at = name.indexOf('/', at + 1)) depth += 1
  return depth >= COLLECT_DEPTH_MAX
}

async function toCollectedFile(source: HostPath, name: string): Promise<CollectedFile | undefined> {
  const { stats, path } = source
  if (stats.isFile()) return { ...source, name, kind: 'File', link: '' }
  if (stats.isDirectory()) return { ...source, name, kind: 'Directory', link: '' }
  if (!stats.isSymbolicLink()) return undefined
  const link = await readlink(path)
  return staysInside(name, link) ? { ...source, name, kind: 'SymbolicLink', link } : undefined
}

/**
 * Reports whether the target of a link stays below the first part of `name`. `..` is accepted only at the beginning of
 * the target, where it starts from a real folder. Later it could start from the target of another link.
 */
export function staysInside(name: string, link: string): boolean {
  if (link === '' || link.startsWith('/')) return false
  const steps = link.split('/').filter((step) => step !== '' && step !== '.')
  const firstName = steps.findIndex((step) => step !== '..')
  const stepsUp = firstName === -1 ? steps.length : firstName
  const depth = name.split('/').length - 2
  return stepsUp <= depth && !steps.slice(stepsUp).includes('..')
}

async function* packFiles(files: CollectedFile[]): AsyncGenerator<Buffer> {
  for (const entry of files) {
    const size = entry.kind === 'File' ? entry.stats.size : 0
    yield toHeader(entry, size)
    if (entry.kind === 'File') yield* readContent(entry, size)
  }
  yield tarEnd()
}

function toHeader({ name, kind, link, stats }: CollectedFile, size: number): Buffer {
  const { uid, gid, mtime } = stats
  return tarHeader({ path: name, type: kind, mode: stats.mode & PLAIN_MODE, uid, gid, size, mtime, link })
}

/** Yields the content of a file, exactly as many bytes as its header declares, and its padding. */
async function* readContent({ path }: CollectedFile, size: number): AsyncGenerator<Buffer> {
  if (size === 0) return
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  await using file = await open(path, flags)
  let read = 0
  for await (const chunk of file.createReadStream({ start: 0, end: size - 1, autoClose: false })) {
    read += chunk.length
    yield chunk
  }
  if (read < size) throw new Error(`${path} became shorter while it was read.`)
  yield tarPadding(size)
}
