import { chmodSync, closeSync, fchmodSync, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { chmod, mkdtemp, open, readdir, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { Header, Pax } from 'tar'
import { hasCode } from '../platform/errors.ts'
import { ArchiveRefused, type StreamLimits, tarStream } from './archive-stream.ts'
import { FILE_BYTES_MAX, FILES_MAX, TASK_BYTES_MAX } from './limits.ts'
import { createPathTree, type EntryKind, findPathFault, type PathTree } from './paths.ts'
import { createReport } from './report.ts'
import { createMemorySource, type FileSource, type MemoryFile, type SourceFile } from './source.ts'
import { readTarEntries, type TarEntry } from './tar-reader.ts'
import { listTaskFiles } from './task-files.ts'

export type UnpackLimits = StreamLimits & EntryLimits

const TASK_LIMITS: UnpackLimits = {
  entries: FILES_MAX,
  fileBytes: FILE_BYTES_MAX,
  totalBytes: TASK_BYTES_MAX,
  ratio: 200,
  timeMs: 60_000,
  links: 'none',
}

/**
 * Unpacks a tar archive, gzipped or not, into a folder that is empty or does not exist. Throws ArchiveRefused. Files are
 * written to a temporary folder beside the target, which is renamed at the end: a refused archive leaves no files.
 */
export async function unpack(
  archive: Readable,
  folder: string,
  limits: Partial<UnpackLimits> = {},
): Promise<ArchiveSize> {
  const target = resolve(folder)
  await requireEmpty(target)
  const temporaryFolder = await mkdtemp(join(dirname(target), `.${basename(target)}-unpacking-`))
  try {
    const size = await unpackInto(temporaryFolder, archive, { ...TASK_LIMITS, ...limits })
    await chmod(temporaryFolder, 0o755)
    await rename(temporaryFolder, target)
    return size
  } catch (error) {
    await rm(temporaryFolder, { recursive: true, force: true })
    throw error
  } finally {
    archive.destroy()
  }
}

async function requireEmpty(folder: string): Promise<void> {
  const entries = await readdir(folder).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT')) throw error
    return []
  })
  if (entries.length > 0) throw new Error(`${folder} is not empty. Nothing was unpacked.`)
}

async function unpackInto(root: string, archive: Readable, limits: UnpackLimits): Promise<ArchiveSize> {
  const { size, tree, links } = await readEntries(folderSink(root), archive, limits)
  for (const link of links) checkLink(link, tree)
  // Links are created last, so that no file can be written through one.
  for (const { path, linkTarget } of links) await symlink(linkTarget, join(root, path))
  return size
}

/** Destination of archive entries. Receives only entries that passed `admitEntry`. */
type EntrySink = { folder(path: string): void; file(entry: TarEntry): Promise<void> }

const folderSink = (root: string): EntrySink => ({
  folder: (path) => {
    mkdirSync(join(root, path))
    // The mode of a new folder depends on the mask of this process, which services set to 077.
    chmodSync(join(root, path), 0o755)
  },
  file: (entry) => writeEntry(entry, join(root, entry.path)),
})

/** Returns the unpacked size of an archive without writing it. Throws ArchiveRefused in the same cases as `unpack`. */
export async function measureArchive(archive: Readable, limits: Partial<UnpackLimits>): Promise<ArchiveSize> {
  const discard: EntrySink = { folder: () => {}, file: (entry) => discardContent(entry) }
  try {
    const { size, tree, links } = await readEntries(discard, archive, { ...TASK_LIMITS, ...limits })
    for (const link of links) checkLink(link, tree)
    return size
  } finally {
    archive.destroy()
  }
}

export async function discardContent(entry: TarEntry): Promise<void> {
  for await (const _ of entry.content());
}

const IN_MEMORY_BYTES_MAX = 16 * 1024 * 1024

/**
 * Unpacks the archive of a task into memory, since most tasks are small and read several times. Returns undefined if its
 * files have more than 16 MiB in total; the stream cannot be read again. Throws ArchiveRefused.
 */
export async function unpackToMemory(
  archive: Readable,
  name: string,
  limits: Partial<UnpackLimits> = {},
): Promise<FileSource | undefined> {
  const files: [string, MemoryFile][] = []
  let bytes = 0
  const sink: EntrySink = {
    folder: () => {},
    async file(entry) {
      bytes += entry.bytes
      if (bytes > IN_MEMORY_BYTES_MAX) throw new TooLargeForMemory()
      files.push([entry.path, { content: await readEntryContent(entry), executable: isExecutable(entry) }])
    },
  }
  try {
    await readEntries(sink, archive, { ...TASK_LIMITS, ...limits, links: 'none' })
    return createMemorySource(name, files)
  } catch (error) {
    if (error instanceof TooLargeForMemory) return undefined
    throw error
  } finally {
    archive.destroy()
  }
}

class TooLargeForMemory extends Error {}

type UnpackState = { limits: UnpackLimits; size: ArchiveSize; tree: PathTree; links: TarEntry[] }

async function readEntries(sink: EntrySink, archive: Readable, limits: UnpackLimits): Promise<UnpackState> {
  const state: UnpackState = { limits, size: { entries: 0, bytes: 0 }, tree: createPathTree(), links: [] }
  for await (const entry of readTarEntries(tarStream(archive, limits))) await admitAndStoreEntry(entry, sink, state)
  if (state.size.entries === 0) throw new ArchiveRefused('empty', 'The archive has no entries.')
  return state
}

async function admitAndStoreEntry(
  raw: TarEntry,
  sink: EntrySink,
  { limits, size, tree, links }: UnpackState,
): Promise<void> {
  if (raw.type === 'Directory' && /^\.\/?$/.test(raw.path)) return // the root folder
  const entry = { ...raw, path: cleanPath(raw) }
  const kind = admitEntry(entry, limits, size)
  const added = tree.add(entry.path, kind)
  if (added.fault) throw new ArchiveRefused(added.fault, 'The path conflicts with another entry.', entry.path)
  for (const folder of added.folders) sink.folder(folder)
  if (kind === 'link') links.push(entry)
  if (kind === 'file') await sink.file(entry)
}

/** Strips a leading `./`, and the trailing slash of a folder. */
const cleanPath = ({ path, type }: TarEntry): string =>
  (type === 'Directory' ? path.replace(/\/$/, '') : path).replace(/^(\.\/)+/, '')

const SYNC_WRITE_BYTES_MAX = 256 * 1024

async function writeEntry(entry: TarEntry, path: string): Promise<void> {
  const mode = isExecutable(entry) ? 0o755 : 0o644
  if (entry.bytes > SYNC_WRITE_BYTES_MAX) return writeLarge(path, mode, entry.content())
  writeSmall(path, mode, await readEntryContent(entry))
}

const isExecutable = ({ mode }: TarEntry): boolean => (mode & 0o111) !== 0

async function readEntryContent(entry: TarEntry): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of entry.content()) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Writes synchronously: with promises, many small files take twice as long. */
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

type EntryLimits = {
  entries: number
  fileBytes: number
  totalBytes: number
  /** `none` refuses symbolic links, which Harbor never packs. `inside` accepts relative ones that stay in the folder. */
  links: 'none' | 'inside'
}

/** Number of entries and sum of their sizes. */
type ArchiveSize = { entries: number; bytes: number }

const KINDS: Partial<Record<string, EntryKind | 'hardlink' | 'sparse'>> = {
  File: 'file',
  OldFile: 'file',
  ContiguousFile: 'file',
  Directory: 'folder',
  SymbolicLink: 'link',
  Link: 'hardlink',
  SparseFile: 'sparse',
}

/** Returns the kind of an entry and adds it to the size. Throws ArchiveRefused. */
function admitEntry({ path, type, bytes }: TarEntry, limits: EntryLimits, size: ArchiveSize): EntryKind {
  const kind = KINDS[type]
  if (kind === undefined) throw new ArchiveRefused('special_file', 'Only regular files and folders are allowed.', path)
  if (kind === 'sparse') throw new ArchiveRefused('sparse', 'Sparse files are not allowed.', path)
  if (kind === 'hardlink' || (kind === 'link' && limits.links === 'none')) {
    throw new ArchiveRefused('link', 'Links are not allowed.', path)
  }
  if (kind !== 'file' && bytes > 0) throw new ArchiveRefused('damaged', 'Only a regular file can have content.', path)
  const fault = findPathFault(path)
  if (fault) throw new ArchiveRefused(fault, 'The path is not allowed.', path)
  addToSize(path, bytes, limits, size)
  return kind
}

function addToSize(path: string, bytes: number, limits: EntryLimits, size: ArchiveSize): void {
  size.entries++
  size.bytes += bytes
  if (size.entries > limits.entries) {
    throw new ArchiveRefused('too_many_entries', `The archive has more than ${limits.entries} entries.`)
  }
  if (bytes > limits.fileBytes)
    throw new ArchiveRefused('file_too_large', `The limit is ${limits.fileBytes} bytes per file.`, path)
  if (size.bytes > limits.totalBytes)
    throw new ArchiveRefused('too_large', `The archive unpacks to more than ${limits.totalBytes} bytes.`)
}

const TARGET_LENGTH_MAX = 1024

/**
 * Checks the target of a link part by part. The path must stay in the folder and must not pass through another link,
 * which could lead elsewhere. The target does not have to exist.
 */
function checkLink({ path, linkTarget }: TarEntry, tree: PathTree): void {
  const isAbsolute = linkTarget.startsWith('/')
  const hasUnsafeCharacter = /[\\\p{Cc}\uFFFD]/u.test(linkTarget)
  if (linkTarget === '' || linkTarget.length > TARGET_LENGTH_MAX || isAbsolute || hasUnsafeCharacter) {
    throw new ArchiveRefused('link_outside', 'The target of the link is not allowed.', path)
  }
  const resolved = path.split('/').slice(0, -1)
  for (const part of linkTarget.split('/').filter((each) => each !== '' && each !== '.')) {
    if (part === '..' && resolved.length === 0)
      throw new ArchiveRefused('link_outside', 'The link leads out of the archive.', path)
    if (part === '..') resolved.pop()
    else resolved.push(part)
    if (tree.find(resolved.join('/'))?.kind === 'link') {
      throw new ArchiveRefused('through_a_link', 'The link leads through another link.', path)
    }
  }
}

/**
 * Packs the files of a task as Harbor does: sorted, without folders, owners and times. The same files give the same bytes
 * on every machine with this version of Node. Throws TaskInvalid for files that cannot be packed.
 */
export async function packTask(source: FileSource, { includeIgnored = false, level = 9 } = {}): Promise<Readable> {
  const report = createReport()
  const files = await listTaskFiles(source, report, { includeIgnored })
  report.throwIfRefused()
  const gzip = createGzip({ level })
  pipeline(Readable.from(packBlocks(source, files)), gzip, () => undefined) // an error reaches the reader through `gzip`
  return gzip
}

const BLOCK = 512

async function* packBlocks(source: FileSource, files: readonly SourceFile[]): AsyncGenerator<Buffer> {
  for (const file of files) {
    yield buildHeader(file)
    yield* readContent(source, file)
    yield Buffer.alloc((BLOCK - (file.bytes % BLOCK)) % BLOCK)
  }
  yield Buffer.alloc(2 * BLOCK)
}

function buildHeader({ path, bytes, executable }: SourceFile): Buffer {
  const entry = { path, size: bytes, mode: executable ? 0o755 : 0o644, uid: 0, gid: 0, mtime: new Date(0) }
  const header = new Header({ ...entry, type: 'File' })
  const block = Buffer.alloc(BLOCK)
  const isTooLong = header.encode(block)
  return isTooLong ? Buffer.concat([new Pax({ path }).encode(), block]) : block
}

async function* readContent(source: FileSource, { path, bytes }: SourceFile): AsyncGenerator<Buffer> {
  let packed = 0
  for await (const chunk of await source.open(path)) {
    packed += chunk.length
    if (packed > bytes) break
    yield chunk
  }
  if (packed !== bytes) throw new Error(`${path} changed while it was being packed. Try again.`)
}
