import { closeSync, fchmodSync, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { chmod, mkdtemp, open, readdir, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { hasCode } from '../platform/blobs/error-codes.ts'
import { admit, checkLink, type EntryLimits, type Sum } from './admit.ts'
import { ArchiveRefused } from './archive-refused.ts'
import { type StreamLimits, tarStream } from './archive-stream.ts'
import { FILE_BYTES_MAX, FILES_MAX, TASK_BYTES_MAX } from './limits.ts'
import { newTree, type Tree } from './path-rules.ts'
import { type FileSource, inMemory, type MemoryFile } from './source.ts'
import { type TarEntry, tarEntries } from './tar-reader.ts'

/** Links are either refused, or must be relative and stay in the folder. Harbor packs none. */
export type UnpackLimits = StreamLimits & EntryLimits

const OF_A_TASK: UnpackLimits = {
  entries: FILES_MAX,
  fileBytes: FILE_BYTES_MAX,
  totalBytes: TASK_BYTES_MAX,
  ratio: 200,
  timeMs: 60_000,
  links: 'none',
}

/**
 * Unpacks a tar archive, gzipped or not, into a folder that does not exist yet or is empty. Throws ArchiveRefused.
 * Everything is first put beside it, and the folder appears when all is well: a refusal leaves nothing, anywhere.
 */
export async function unpack(archive: Readable, folder: string, limits: Partial<UnpackLimits> = {}): Promise<Sum> {
  const target = resolve(folder)
  await expectEmpty(target)
  const beside = await mkdtemp(join(dirname(target), `.${basename(target)}-unpacking-`))
  try {
    const sum = await unpackInto(beside, archive, { ...OF_A_TASK, ...limits })
    await chmod(beside, 0o755)
    await rename(beside, target)
    return sum
  } catch (error) {
    await rm(beside, { recursive: true, force: true })
    throw error
  } finally {
    archive.destroy()
  }
}

async function expectEmpty(folder: string): Promise<void> {
  const entries = await readdir(folder).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT')) throw error
    return []
  })
  if (entries.length > 0) throw new Error(`${folder} is not empty: nothing was unpacked.`)
}

async function unpackInto(root: string, archive: Readable, limits: UnpackLimits): Promise<Sum> {
  const { sum, tree, links } = await unpackTo(folderSink(root), archive, limits)
  for (const link of links) checkLink(link, tree)
  // Last of all: as long as there is no link, nothing can be written through one.
  for (const { path, linkTarget } of links) await symlink(linkTarget, join(root, path))
  return sum
}

/** Where the entries of an archive go. What arrives here has been admitted. */
type Sink = { folder(path: string): void; file(entry: TarEntry): Promise<void> }

const folderSink = (root: string): Sink => ({
  folder: (path) => mkdirSync(join(root, path), { mode: 0o755 }),
  file: (entry) => writeEntry(entry, join(root, entry.path)),
})

/** What an archive would be, unpacked. Nothing is written. Throws ArchiveRefused for whatever `unpack` does. */
export async function weigh(archive: Readable, limits: Partial<UnpackLimits> = {}): Promise<Sum> {
  const nowhere: Sink = { folder: () => {}, file: (entry) => readThrough(entry) }
  try {
    const { sum, tree, links } = await unpackTo(nowhere, archive, { ...OF_A_TASK, ...limits })
    for (const link of links) checkLink(link, tree)
    return sum
  } finally {
    archive.destroy()
  }
}

async function readThrough(entry: TarEntry): Promise<void> {
  for await (const _ of entry.content());
}

const IN_MEMORY_BYTES_MAX = 16 * 1024 * 1024

/**
 * The files of a task's archive, in memory: most are small, and are read several times before they are let go. Undefined
 * when they are too large for that, and the archive is used up. Throws ArchiveRefused.
 */
export async function unpackToMemory(
  archive: Readable,
  name: string,
  limits: Partial<UnpackLimits> = {},
): Promise<FileSource | undefined> {
  const files: [string, MemoryFile][] = []
  let bytes = 0
  const sink: Sink = {
    folder: () => {},
    async file(entry) {
      bytes += entry.bytes
      if (bytes > IN_MEMORY_BYTES_MAX) throw new TooLargeForMemory()
      files.push([entry.path, { content: await contentOf(entry), executable: isExecutable(entry) }])
    },
  }
  try {
    await unpackTo(sink, archive, { ...OF_A_TASK, ...limits, links: 'none' })
    return inMemory(name, files)
  } catch (error) {
    if (error instanceof TooLargeForMemory) return undefined
    throw error
  } finally {
    archive.destroy()
  }
}

class TooLargeForMemory extends Error {}

type Unpacking = { limits: UnpackLimits; sum: Sum; tree: Tree; links: TarEntry[] }

async function unpackTo(sink: Sink, archive: Readable, limits: UnpackLimits): Promise<Unpacking> {
  const unpacking: Unpacking = { limits, sum: { entries: 0, bytes: 0 }, tree: newTree(), links: [] }
  for await (const entry of tarEntries(tarStream(archive, limits))) await place(entry, sink, unpacking)
  if (unpacking.sum.entries === 0) throw new ArchiveRefused('empty', 'It has no entries.')
  return unpacking
}

async function place(found: TarEntry, sink: Sink, { limits, sum, tree, links }: Unpacking): Promise<void> {
  if (found.type === 'Directory' && /^\.\/?$/.test(found.path)) return // the folder itself
  const entry = { ...found, path: cleanPath(found) }
  const kind = admit(entry, limits, sum)
  const added = tree.add(entry.path, kind)
  if (added.fault) throw new ArchiveRefused(added.fault, 'It stands in the way of another entry.', entry.path)
  for (const folder of added.folders) sink.folder(folder)
  if (kind === 'link') links.push(entry)
  if (kind === 'file') await sink.file(entry)
}

/** `./a` is a, and a folder may end in a slash. */
const cleanPath = ({ path, type }: TarEntry): string =>
  (type === 'Directory' ? path.replace(/\/$/, '') : path).replace(/^(\.\/)+/, '')

const SMALL_BYTES = 256 * 1024

async function writeEntry(entry: TarEntry, path: string): Promise<void> {
  const mode = isExecutable(entry) ? 0o755 : 0o644
  if (entry.bytes > SMALL_BYTES) return writeLarge(path, mode, entry.content())
  writeSmall(path, mode, await contentOf(entry))
}

const isExecutable = ({ mode }: TarEntry): boolean => (mode & 0o111) !== 0

async function contentOf(entry: TarEntry): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of entry.content()) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Sooner done than a thread is asked to: with promises many small files take twice as long. */
function writeSmall(path: string, mode: number, content: Buffer): void {
  const file = openSync(path, 'wx', 0o600)
  try {
    writeFileSync(file, content)
    fchmodSync(file, mode)
  } finally {
    closeSync(file)
  }
}

async function writeLarge(path: string, mode: number, chunks: AsyncIterable<Buffer>): Promise<void> {
  await using file = await open(path, 'wx', 0o600)
  for await (const chunk of chunks) await file.writeFile(chunk)
  await file.chmod(mode)
}
