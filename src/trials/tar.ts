import { constants } from 'node:fs'
import { lstat, open, readdir, readlink } from 'node:fs/promises'
import { basename, join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { Header, Pax } from 'tar'
import { tarEnd, tarPadding } from '../sandboxes/kernel/tar-writer.ts'

const BLOCK_BYTES = 512

export type TarHeader = {
  path: string
  type: 'File' | 'Directory' | 'SymbolicLink'
  mode: number
  uid: number
  /** Default: the uid. */
  gid?: number | undefined
  /** Default: the epoch. */
  mtime?: Date | undefined
  size: number
  linkpath?: string
}

/** Owner of packed files. `writableByAll`: every user may change them. */
export type FileOwnership = { uid: number; writableByAll: boolean }

/** Yields the header of an entry. Archives of generated tasks contain it, so its bytes must not change. */
export function* headerBlocks(header: TarHeader): Generator<Buffer> {
  const { gid = header.uid, mtime = new Date(0) } = header
  const fields = { ...header, gid, mtime }
  const block = Buffer.alloc(BLOCK_BYTES)
  if (new Header(fields).encode(block)) yield new Pax(fields).encode()
  yield block
}

/** Packs the contents of a folder, or one file under `entryName`, by default its own name. Links are packed as links. */
export function packPath(path: string, ownership: FileOwnership, entryName?: string): Readable {
  return Readable.from(packEntries(path, ownership, entryName), { objectMode: false })
}

async function* packEntries(
  path: string,
  ownership: FileOwnership,
  entryName = basename(path),
): AsyncGenerator<Buffer> {
  const stats = await lstat(path)
  if (stats.isDirectory())
    for (const name of (await readdir(path)).sort()) yield* packEntry(join(path, name), name, ownership)
  else yield* packEntry(path, entryName, ownership)
  yield tarEnd()
}

async function* packEntry(path: string, name: string, ownership: FileOwnership): AsyncGenerator<Buffer> {
  const stats = await lstat(path)
  const { uid, writableByAll } = ownership
  const writeBits = stats.isDirectory() ? 0o777 : 0o666
  const mode = (stats.mode & 0o777) | (writableByAll ? writeBits : 0)
  if (stats.isSymbolicLink()) {
    yield* headerBlocks({ path: name, type: 'SymbolicLink', mode, uid, size: 0, linkpath: await readlink(path) })
  } else if (stats.isDirectory()) {
    yield* headerBlocks({ path: `${name}/`, type: 'Directory', mode, uid, size: 0 })
    for (const inner of (await readdir(path)).sort())
      yield* packEntry(join(path, inner), posix.join(name, inner), ownership)
  } else if (stats.isFile()) {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
    const content = await file.readFile()
    yield* headerBlocks({ path: name, type: 'File', mode, uid, size: content.length })
    yield content
    yield tarPadding(content.length)
  }
}

/** Packs empty folders that every user may write to. */
export function packFolders(paths: string[]): Readable {
  const blocks = paths.flatMap((path) => [
    ...headerBlocks({ path: `${path}/`, type: 'Directory', mode: 0o777, uid: 0, size: 0 }),
  ])
  return Readable.from([Buffer.concat([...blocks, tarEnd()])], { objectMode: false })
}

type TextEntry = { path: string; text: string; mode?: number }

/** Packs text files below a folder, with the folders in between. */
export function packTexts(folder: string, texts: TextEntry[], { uid, writableByAll }: FileOwnership): Readable {
  const folders = new Set([folder, ...texts.flatMap(({ path }) => listFoldersAbove(posix.join(folder, path)))])
  const folderMode = writableByAll ? 0o777 : 0o755
  const fileMode = writableByAll ? 0o666 : 0o600
  const blocks = [
    ...[...folders]
      .sort()
      .flatMap((path) => [...headerBlocks({ path: `${path}/`, type: 'Directory', mode: folderMode, uid, size: 0 })]),
    ...texts.flatMap(({ path, text, mode = fileMode }) => {
      const content = Buffer.from(text)
      const header = { path: posix.join(folder, path), type: 'File', mode, uid, size: content.length } as const
      return [...headerBlocks(header), content, tarPadding(content.length)]
    }),
  ]
  return Readable.from([Buffer.concat([...blocks, tarEnd()])], { objectMode: false })
}

/** Lists the folders above a path, outermost first. */
function listFoldersAbove(path: string): string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
}
