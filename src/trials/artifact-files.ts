import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { findPathFault } from '../harbor/paths.ts'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import { isExcluded } from './exclude.ts'
import { endOfTar, headerBlocks, paddingAfter, type TarHeader } from './tar.ts'

type Size = { files: number; bytes: number }

/** Writes a collected tar, the only source, to a file, without what is excluded. */
export async function spoolArtifact(
  { file, exclude }: { file: string; exclude: string[] },
  [tar]: readonly AsyncIterable<Buffer>[],
): Promise<Size> {
  const size = { files: 0, bytes: 0 }
  await using target = await open(file, 'wx', 0o600)
  for await (const entry of readTarEntries(tar ?? Readable.from([]))) {
    if (isExcluded(entry.path.replace(/\/$/, ''), exclude)) {
      await readPast(entry)
      continue
    }
    await copyEntry(entry, target)
    if (entry.type === 'File') size.files += 1
    size.bytes += entry.bytes
  }
  await target.writeFile(endOfTar())
  return size
}

async function readPast(entry: TarEntry): Promise<void> {
  for await (const _ of entry.content());
}

async function copyEntry(entry: TarEntry, target: FileHandle): Promise<void> {
  for (const block of headerBlocks(headerOf(entry))) await target.writeFile(block)
  for await (const chunk of entry.content()) await target.writeFile(chunk)
  await target.writeFile(paddingAfter(entry.bytes))
}

/** As root's, because the users of one image mean nothing in another. */
const headerOf = ({ path, type, mode, bytes, linkTarget }: TarEntry): TarHeader => ({
  path,
  type: type === 'Directory' || type === 'SymbolicLink' ? type : 'File',
  mode: mode & 0o777,
  uid: 0,
  size: bytes,
  ...(type === 'SymbolicLink' ? { linkpath: linkTarget } : {}),
})

/**
 * Unpacks a spooled artifact at a place of this machine. The first part of each name, which is that of the source, gives
 * way to the place. Answers what is left out: names that are not safe on every machine, and links, because nothing that is
 * kept may lead elsewhere.
 */
export async function keepFiles({ tar, place }: { tar: string; place: string }): Promise<string[]> {
  const leftOut: string[] = []
  for await (const entry of readTarEntries(createReadStream(tar))) {
    const [, ...rest] = entry.path.replace(/\/$/, '').split('/')
    const inside = rest.join('/')
    if (entry.type === 'SymbolicLink' || (inside !== '' && findPathFault(inside) !== undefined)) {
      leftOut.push(entry.path)
      await readPast(entry)
      continue
    }
    await keepEntry(entry, inside === '' ? place : join(place, inside))
  }
  return leftOut
}

async function keepEntry(entry: TarEntry, path: string): Promise<void> {
  if (entry.type === 'Directory') return void (await mkdir(path, { recursive: true, mode: 0o755 }))
  await mkdir(dirname(path), { recursive: true, mode: 0o755 })
  await using file = await open(path, 'wx', 0o644)
  for await (const chunk of entry.content()) await file.writeFile(chunk)
}
