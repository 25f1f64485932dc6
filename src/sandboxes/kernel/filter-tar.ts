import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Readable } from 'node:stream'
import { discardContent } from '../../harbor/archive.ts'
import { ArchiveRefused } from '../../harbor/archive-stream.ts'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import type { CollectCaps } from '../sandbox.ts'
import { isTooDeep, staysInside } from './collect.ts'
import { PLAIN_MODE, tarHeader, tarPadding } from './tar-writer.ts'

/** Position of a file's content in the spool. A hard link becomes a copy of it. */
type SpooledContent = { offset: number; size: number }
type TarFilter = {
  spool: FileHandle
  /** Prefix of each name in the result. */
  prefix: string
  caps: CollectCaps
  /** Size of the spool. */
  written: number
  /** Sum of the sizes of all files that passed. */
  bytes: number
  /** Contents of the files that passed, by name. */
  contents: Map<string, SpooledContent>
  /** Number of entries that passed. */
  count: number
  /** Number of entries that are dropped without being listed: by `isDropped`, or below a folder that is nested too deeply. */
  skipped: number
  leftOut: string[]
  /** Returns true for an entry that is dropped and not listed in `leftOut`. */
  isDropped: (path: string) => boolean
}

export type TarFilterOptions = {
  /** Folder for the spool. */
  folder: string
  caps: CollectCaps
  /** Prefix of each name in the result. */
  prefix: string
  isDropped?: ((path: string) => boolean) | undefined
}

/**
 * Entries that passed the filter, without the end-of-archive blocks. The file has no name and disappears when it is
 * closed.
 */
export type FilteredTar = { tar: Readable; leftOut: string[] }

/** Maximum size of a dropped file. Even a dropped file must be read, and its size is untrusted. */
const SKIP_MAX_BYTES = 256e6
/** Maximum number of entries that are read only to be dropped. */
const SKIPPED_MAX = 100_000
/** Maximum number of names in `leftOut`. */
const LEFT_OUT_MAX = 1000
/** Last entry of `leftOut` if the rest of the archive was not read. */
export const REST_LEFT_OUT = '… and all later entries'
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
  const filter: TarFilter = { spool, prefix, caps, ...counts, contents: new Map(), leftOut: [], isDropped }
  try {
    await filterEntries(filter, tar)
    return { tar: openResult(filter), leftOut: filter.leftOut }
  } catch (error) {
    await spool.close()
    throw error
  }
}

function openResult({ spool, written }: TarFilter): Readable {
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

async function filterEntries(filter: TarFilter, tar: AsyncIterable<Buffer>): Promise<void> {
  try {
    for await (const entry of readTarEntries(tar)) {
      const name = entry.path.replace(/^(\.?\/)+/, '').replace(/\/+$/, '') || '.'
      if (await filterEntry(filter, name, entry)) continue
      filter.leftOut.push(REST_LEFT_OUT)
      return
    }
  } catch (error) {
    // An invalid archive is caused by names that the sandbox created, so it is not an outage of the engine.
    if (!(error instanceof ArchiveRefused)) throw error
    filter.leftOut.push(REST_LEFT_OUT)
  }
}

/** Passes, skips or leaves out an entry. Returns false when the rest of the archive should not be read. */
async function filterEntry(filter: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  if (filter.isDropped(`${filter.prefix}${name}`)) return skip(filter, entry)
  // A folder that is nested too deeply is listed once, without the entries below it.
  if (isTooDeep(name)) return isTooDeep(posix.dirname(name)) ? skip(filter, entry) : leaveOut(filter, name, entry)
  return (await passEntry(filter, name, entry)) || leaveOut(filter, name, entry)
}

async function skip(filter: TarFilter, entry: TarEntry): Promise<boolean> {
  filter.skipped += 1
  if (entry.bytes > SKIP_MAX_BYTES || filter.skipped > SKIPPED_MAX) return false
  await discardContent(entry)
  return true
}

async function leaveOut({ leftOut }: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  leftOut.push(name)
  if (entry.bytes > SKIP_MAX_BYTES || leftOut.length >= LEFT_OUT_MAX) return false
  await discardContent(entry)
  return true
}

/** Writes an entry to the result. Returns false, without reading its content, if it must be left out. */
async function passEntry(filter: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  if (filter.count >= filter.caps.files || name.split('/').includes('..')) return false
  switch (entry.type) {
    case 'File':
    case 'OldFile':
    case 'ContiguousFile':
      return passFile(filter, name, entry)
    case 'Directory':
      await writeHeader(filter, name, { ...entry, bytes: 0 }, 'Directory')
      return true
    case 'SymbolicLink':
      if (!staysInside(name, entry.linkTarget)) return false
      await writeHeader(filter, name, { ...entry, bytes: 0 }, 'SymbolicLink')
      return true
    case 'Link':
      return passHardLink(filter, name, entry)
    default:
      return false
  }
}

async function passFile(filter: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  if (filter.bytes + entry.bytes > filter.caps.bytes) return false
  await writeHeader(filter, name, entry, 'File')
  filter.contents.set(name, { offset: filter.written, size: entry.bytes })
  filter.bytes += entry.bytes
  for await (const chunk of entry.content()) await write(filter, chunk)
  await write(filter, tarPadding(entry.bytes))
  return true
}

async function passHardLink(filter: TarFilter, name: string, entry: TarEntry): Promise<boolean> {
  const firstName = entry.linkTarget.replace(/^(\.?\/)+/, '')
  const first = filter.contents.get(firstName)
  if (first && filter.caps.keepsHardLinks) {
    await writeHeader(filter, name, { ...entry, bytes: 0, linkTarget: `${filter.prefix}${firstName}` }, 'Link')
    return true
  }
  if (first === undefined || filter.bytes + first.size > filter.caps.bytes) return false
  await writeHeader(filter, name, { ...entry, bytes: first.size }, 'File')
  filter.bytes += first.size
  let copied = 0
  while (copied < first.size) {
    const length = Math.min(COPY_BYTES, first.size - copied)
    const { buffer, bytesRead } = await filter.spool.read(Buffer.alloc(length), 0, length, first.offset + copied)
    await write(filter, buffer.subarray(0, bytesRead))
    copied += bytesRead
  }
  await write(filter, tarPadding(first.size))
  return true
}

type PassedEntryType = 'File' | 'Directory' | 'SymbolicLink' | 'Link'

async function writeHeader(filter: TarFilter, name: string, entry: TarEntry, type: PassedEntryType): Promise<void> {
  const { uid, gid, mtime, bytes: size, linkTarget: link } = entry
  const mode = entry.mode & PLAIN_MODE
  filter.count += 1
  await write(filter, tarHeader({ path: `${filter.prefix}${name}`, type, mode, uid, gid, mtime, size, link }))
}

async function write(filter: TarFilter, chunk: Buffer): Promise<void> {
  if (chunk.length === 0) return
  await filter.spool.write(chunk, 0, chunk.length, filter.written)
  filter.written += chunk.length
}
