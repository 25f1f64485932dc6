import { randomUUID } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { type FileHandle, mkdir, open, opendir, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ArchiveRefused } from '../../harbor/archive-refused.ts'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { listChanges } from '../kernel/changes.ts'
import { isTooDeep, staysInside } from '../kernel/collect.ts'
import { findInside, type HostPath, toPathParts } from '../kernel/inside.ts'
import { PLAIN_MODE, tarEnd, tarHeader, tarPadding } from '../kernel/tar-writer.ts'
import {
  type CollectCaps,
  type FileChange,
  type SandboxSpec,
  SandboxUnavailable,
  type StoppedSandbox,
} from '../sandbox.ts'
import { ignoring, TRANSFER_MS } from './client.ts'
import { statIn } from './container-files.ts'
import type { DockerEngine } from './engine.ts'
import { type ContainerLayers, readLayers } from './layers.ts'
import type { Container } from './running.ts'

/** Private part of a `StoppedSandbox`, from which a later sandbox can start. */
export type StoppedContainer = {
  containerId: string
  imageDigest: string
  layers: ContainerLayers | undefined
  /** Disk limit, which also applies to a copy of its files. */
  diskMb: number
  /** Changes of the snapshot that it was started from, where `layers` cannot be read. */
  inherited: readonly FileChange[]
}

const insides = new WeakMap<StoppedSandbox, StoppedContainer>()

export function createStoppedSandbox(
  engine: DockerEngine,
  spec: SandboxSpec,
  { id, layers }: Container,
  inherited: readonly FileChange[],
): StoppedSandbox {
  const { image, limits } = spec
  const left: StoppedContainer = {
    containerId: id,
    imageDigest: image.digest,
    layers,
    diskMb: limits.diskMb,
    inherited,
  }
  const remains: StoppedSandbox = {
    sandboxId: spec.id,
    async collect(path, caps) {
      const found = await collectFrom(engine, left, path, { caps, prefix: '' })
      return found && { tar: Readable.from(ended(found.tar), { objectMode: false }), leftOut: found.leftOut }
    },
    changes: () => changesOf(engine, left),
  }
  insides.set(remains, left)
  return remains
}

export function stoppedContainerOf(remains: StoppedSandbox): StoppedContainer {
  const left = insides.get(remains)
  if (left === undefined) throw new Error(`Sandbox ${remains.sandboxId} belongs to another provider.`)
  return left
}

/** Changes that a container started from a snapshot of this one inherits. Read before this container is removed. */
export async function inheritedChanges(engine: DockerEngine, left: StoppedContainer): Promise<FileChange[]> {
  return left.layers ? [] : [...left.inherited, ...(await askChanges(engine, left.containerId))]
}

async function* ended(tar: Readable): AsyncGenerator<Buffer> {
  yield* tar
  yield tarEnd()
}

type CollectOptions = Omit<TarFilterOptions, 'folder'>

/** Collects a path. Returns undefined if it does not exist or is behind a link. */
export async function collectFrom(
  engine: DockerEngine,
  { containerId, layers }: StoppedContainer,
  path: string,
  options: CollectOptions,
): Promise<FilteredTar | undefined> {
  const parts = toPathParts(path)
  const sieve = (tar: Readable): Promise<FilteredTar> => filterTar(tar, { ...options, folder: engine.folder })
  if (layers === undefined || parts.length === 0) return askEngine(engine, containerId, parts, sieve)
  const reading = await readLayers(engine, layers, parts, sieve)
  // The filtered archive is an open file even when there was nothing to read.
  if (reading.kind !== 'read') reading.value.tar.destroy()
  if (reading.kind === 'unable') return askEngine(engine, containerId, parts, sieve)
  if (reading.kind === 'nothing') return undefined
  const top = await findInside(layers.upper, parts.join('/'))
  if (top) reading.value.leftOut.push(...(await listSockets(top, parts.at(-1) ?? '.', options.caps.files)))
  return reading.value
}

type Use = (tar: Readable) => Promise<FilteredTar>

async function askEngine(
  { docker }: DockerEngine,
  id: string,
  parts: string[],
  use: Use,
): Promise<FilteredTar | undefined> {
  for (let length = 1; length < parts.length; length += 1) {
    const above = await statIn(docker, id, `/${parts.slice(0, length).join('/')}`)
    if (above?.isFolder !== true) return undefined
  }
  const query = { path: posix.join('/', ...parts) }
  const ask = { query, timeoutMs: TRANSFER_MS }
  const answer = await docker.open('GET', `/containers/${id}/archive`, ask).catch(ignoring(404))
  if (answer === undefined) return undefined
  const tar = new PassThrough()
  pipeline(answer, tar).catch(() => {}) // reported to the reader of the archive
  try {
    return await use(tar)
  } finally {
    answer.destroy()
  }
}

/** Lists the sockets below a path, which tar leaves out without a message. Reads at most `entriesMax` entries. */
async function listSockets(top: HostPath, name: string, entriesMax: number): Promise<string[]> {
  if (top.stats.isSocket()) return [name]
  if (!top.stats.isDirectory()) return []
  const sockets: string[] = []
  let entries = 0
  for await (const { entry, path } of walkFolders(top.path, name)) {
    entries += 1
    if (entries > entriesMax || sockets.length >= SOCKETS_MAX) break
    if (entry.isSocket()) sockets.push(path)
  }
  return sockets
}

/** Yields the entries of a folder and of those below it, as deep as is collected. `name` goes before their paths. */
async function* walkFolders(top: string, name: string): AsyncGenerator<{ entry: Dirent; path: string }> {
  const folders = ['']
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await opendir(`${top}${folder}`).catch(ignoreUnreadableName)
    for await (const entry of entries ?? []) {
      const below = `${folder}/${entry.name}`
      yield { entry, path: `${name}${below}` }
      if (entry.isDirectory() && !isTooDeep(`${name}${below}`)) folders.push(below)
    }
  }
}

const SOCKETS_MAX = 1000

/** Ignores the errors for names that are not UTF-8 and for paths that are too long, which cannot be opened. */
function ignoreUnreadableName(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENAMETOOLONG') throw error
}

/** A dead container whose changes are listed. */
type ChangedContainer = {
  containerId: string
  imageDigest: string
  layers: ContainerLayers | undefined
  /** Changes of the snapshot that it was started from, where `layers` cannot be read. */
  inherited: readonly FileChange[]
}

type ImageDetails = { RootFS: { Layers?: string[] } }

/** Lists what a dead container changed in its task's image, also when it was started from a snapshot of another one. */
async function* changesOf(engine: DockerEngine, left: ChangedContainer): AsyncGenerator<FileChange> {
  if (left.layers === undefined) {
    yield* left.inherited
    yield* await askChanges(engine, left.containerId)
    return
  }
  const { RootFS } = await engine.docker.call<ImageDetails>('GET', `/images/${left.imageDigest}/json`)
  const lower = left.layers.lower.split(':')
  const above = lower.length - (RootFS.Layers?.length ?? 0)
  const changed = lower.slice(0, above).filter((folder) => !folder.includes('-init/'))
  yield* listChanges({ changed: [left.layers.upper, ...changed], image: lower.slice(above) })
}

/** A container with more changes than this is not listed: the engine returns them all in one JSON document. */
const CHANGES_MAX_BYTES = 64e6

type EngineChange = { Path: string; Kind: 0 | 1 | 2 }

/** Paths of which the engine is asked whether they are folders. */
const STATS_MAX = 1000

/**
 * Asks the engine what a container changed in the image that it was started from. The engine does not tell files from
 * folders: an added path counts as a folder when another change lies below it.
 */
async function askChanges({ docker }: DockerEngine, containerId: string): Promise<FileChange[]> {
  const answer = await docker.open('GET', `/containers/${containerId}/changes`)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    bytes += chunk.length
    if (bytes > CHANGES_MAX_BYTES) throw new SandboxUnavailable('The sandbox changed too many files to list them.')
    chunks.push(chunk)
  }
  const changes: EngineChange[] = JSON.parse(Buffer.concat(chunks).toString('utf8') || 'null') ?? []
  const folders = new Set(changes.map(({ Path }) => Path.slice(0, Path.lastIndexOf('/'))))
  const modified = changes.filter(({ Path, Kind }) => Kind === 0 && !folders.has(Path))
  for (const { Path } of modified.slice(0, STATS_MAX)) {
    const found = await statIn(docker, containerId, Path).catch(ignoring(500))
    if (found?.isFolder) folders.add(Path)
  }
  return changes.flatMap(({ Path: path, Kind }): FileChange[] => {
    const isFolder = folders.has(path)
    // Only the owner or the mode of the folder differs, or what lies in it.
    if (Kind === 0 && isFolder) return []
    const kind = Kind === 2 ? 'deleted' : isFolder ? 'folder' : 'file'
    return [{ path, kind, ...(path.includes('\uFFFD') ? { isUnreadable: true } : {}) }]
  })
}

/** Position of a file's content in the spool. A hard link becomes a copy of it. */
type SpooledContent = { at: number; size: number }
type TarFilter = {
  spool: FileHandle
  /** Prefix of each name in the result. */
  prefix: string
  caps: CollectCaps
  written: number
  bytes: number
  contents: Map<string, SpooledContent>
  count: number
  /** Entries below a folder that is left out because it is nested too deeply. */
  skipped: number
  leftOut: string[]
  /** Returns true for an entry that is dropped without being named. */
  isDropped: (path: string) => boolean
}

type TarFilterOptions = {
  folder: string
  caps: CollectCaps
  prefix: string
  isDropped?: ((path: string) => boolean) | undefined
}

/**
 * Entries that passed the filter, without the end-of-archive blocks. The file has no name and disappears when it is
 * closed.
 */
type FilteredTar = { tar: Readable; leftOut: string[] }

/** Maximum size of a dropped file. Even a dropped file must be read, and its size is untrusted. */
const SKIP_MAX_BYTES = 256e6
/** Maximum number of entries that are read only to be dropped. */
const SKIPPED_MAX = 100_000
/** Maximum number of names in `leftOut`. */
const LEFT_OUT_MAX = 1000
export const AND_THE_REST = '… and what came after it'
const COPY_BYTES = 1024 * 1024

/**
 * Filters an archive: regular files, folders, and relative links that stay inside pass, and everything else is named in
 * `leftOut`. The result is spooled to a file, so that `leftOut` is complete before the result is read.
 */
export async function filterTar(
  tar: AsyncIterable<Buffer>,
  { folder, caps, prefix, isDropped = () => false }: TarFilterOptions,
): Promise<FilteredTar> {
  const spool = await openSpool(folder)
  const counts = { written: 0, bytes: 0, count: 0, skipped: 0 }
  const sieve: TarFilter = { spool, prefix, caps, ...counts, contents: new Map(), leftOut: [], isDropped }
  try {
    await passAll(sieve, tar)
    return { tar: readBack(sieve), leftOut: sieve.leftOut }
  } catch (error) {
    await spool.close()
    throw error
  }
}

function readBack({ spool, written }: TarFilter): Readable {
  if (written > 0) return spool.createReadStream({ start: 0, end: written - 1 })
  return spool.createReadStream({ start: 0 })
}

async function openSpool(folder: string): Promise<FileHandle> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const path = join(folder, `spool-${randomUUID()}`)
  const handle = await open(path, 'wx+', 0o600)
  await rm(path)
  return handle
}

async function passAll(sieve: TarFilter, tar: AsyncIterable<Buffer>): Promise<void> {
  try {
    for await (const entry of readTarEntries(tar)) {
      const name = entry.path.replace(/^(\.?\/)+/, '').replace(/\/+$/, '') || '.'
      if (await take(sieve, name, entry)) continue
      sieve.leftOut.push(AND_THE_REST)
      return
    }
  } catch (error) {
    // A name that cannot be stored in an archive is attributed to the sandbox, not to the engine.
    if (!(error instanceof ArchiveRefused)) throw error
    sieve.leftOut.push(AND_THE_REST)
  }
}

/** Returns false when the rest of the archive should not be read. */
async function take(sieve: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  if (sieve.isDropped(`${sieve.prefix}${name}`)) return skip(sieve, entry)
  // A folder that is nested too deeply is named once, and nothing below it is.
  if (isTooDeep(name)) return isTooDeep(posix.dirname(name)) ? skip(sieve, entry) : leaveOut(sieve, name, entry)
  return (await pass(sieve, name, entry)) || leaveOut(sieve, name, entry)
}

async function skip(sieve: TarFilter, { bytes, content }: TarEntry): Promise<boolean> {
  sieve.skipped += 1
  if (bytes > SKIP_MAX_BYTES || sieve.skipped > SKIPPED_MAX) return false
  for await (const _ of content());
  return true
}

async function leaveOut({ leftOut }: TarFilter, name: string, { bytes, content }: TarEntry): Promise<boolean> {
  leftOut.push(name)
  if (bytes > SKIP_MAX_BYTES || leftOut.length >= LEFT_OUT_MAX) return false
  for await (const _ of content());
  return true
}

/** Returns false if the entry was left out without reading it. */
async function pass(sieve: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  if (sieve.count >= sieve.caps.files || name.split('/').includes('..')) return false
  switch (entry.type) {
    case 'File':
    case 'OldFile':
    case 'ContiguousFile':
      return passFile(sieve, name, entry)
    case 'Directory':
      await writeHeader(sieve, name, { ...entry, bytes: 0 }, 'Directory')
      return true
    case 'SymbolicLink':
      if (!staysInside(name, entry.linkTarget)) return false
      await writeHeader(sieve, name, { ...entry, bytes: 0 }, 'SymbolicLink')
      return true
    case 'Link':
      return passSecondName(sieve, name, entry)
    default:
      return false
  }
}

async function passFile(sieve: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  if (sieve.bytes + entry.bytes > sieve.caps.bytes) return false
  await writeHeader(sieve, name, entry, 'File')
  sieve.contents.set(name, { at: sieve.written, size: entry.bytes })
  sieve.bytes += entry.bytes
  for await (const chunk of entry.content()) await write(sieve, chunk)
  await write(sieve, tarPadding(entry.bytes))
  return true
}

async function passSecondName(sieve: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  const firstName = entry.linkTarget.replace(/^(\.?\/)+/, '')
  const first = sieve.contents.get(firstName)
  if (first && sieve.caps.keepsHardLinks) {
    await writeHeader(sieve, name, { ...entry, bytes: 0, linkTarget: `${sieve.prefix}${firstName}` }, 'Link')
    return true
  }
  if (first === undefined || sieve.bytes + first.size > sieve.caps.bytes) return false
  await writeHeader(sieve, name, { ...entry, bytes: first.size }, 'File')
  sieve.bytes += first.size
  for (let done = 0; done < first.size; ) {
    const length = Math.min(COPY_BYTES, first.size - done)
    const { buffer, bytesRead } = await sieve.spool.read(Buffer.alloc(length), 0, length, first.at + done)
    await write(sieve, buffer.subarray(0, bytesRead))
    done += bytesRead
  }
  await write(sieve, tarPadding(first.size))
  return true
}

type PassedEntryType = 'File' | 'Directory' | 'SymbolicLink' | 'Link'

async function writeHeader(sieve: TarFilter, name: string, entry: TarEntry, type: PassedEntryType): Promise<void> {
  const { uid, gid, mtime, bytes: size, linkTarget: link } = entry
  const mode = entry.mode & PLAIN_MODE
  sieve.count += 1
  await write(sieve, tarHeader({ path: `${sieve.prefix}${name}`, type, mode, uid, gid, mtime, size, link }))
}

async function write(sieve: TarFilter, chunk: Buffer): Promise<void> {
  if (chunk.length === 0) return
  await sieve.spool.write(chunk, 0, chunk.length, sieve.written)
  sieve.written += chunk.length
}
