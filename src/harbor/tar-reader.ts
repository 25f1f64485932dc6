import { Header } from 'tar'
import { ArchiveRefused } from './archive-refused.ts'
import { type Blocks, newBlocks } from './blocks.ts'
import { decoded } from './text-file.ts'

/** One entry of an archive, before anyone has decided whether it may be unpacked. */
export type TarEntry = {
  path: string
  /** In node-tar's words, as File or SymbolicLink. */
  type: string
  mode: number
  uid: number
  gid: number
  mtime: Date | undefined
  linkTarget: string
  /** Of the content. */
  bytes: number
  /** Must be read to its end before the next entry is asked for. */
  content: () => AsyncGenerator<Buffer>
}

const BLOCK = 512
/** What extended headers say about the next entry. */
type Extension = { path?: string; linkpath?: string; size?: string }

/**
 * The entries of a tar stream. Headers are read by node-tar; the walk is ours, because its own parser decodes long
 * names chunk by chunk, unzips a second time when it sees fit, and goes on after what it does not understand.
 */
export async function* tarEntries(stream: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const blocks = newBlocks(stream)
  try {
    yield* entriesOf(blocks)
    for await (const rest of blocks.rest()) {
      if (!isZero(rest)) throw new ArchiveRefused('damaged', 'It goes on after its end.')
    }
  } finally {
    await blocks.close()
  }
}

async function* entriesOf(blocks: Blocks): AsyncGenerator<TarEntry> {
  let extension: Extension = {}
  for (let block = await nextBlock(blocks); block; block = await nextBlock(blocks)) {
    const header = headerOf(block)
    const extended = await readExtension(header, blocks)
    if (extended) {
      extension = { ...extension, ...extended }
      continue
    }
    const entry = entryOf(header, extension, blocks)
    extension = {}
    yield entry
    await blocks.skip(padding(entry.bytes))
  }
  if (Object.keys(extension).length > 0) throw new ArchiveRefused('damaged', 'It ends after the name of an entry.')
}

/** Undefined at the end, which is a block of zeros. */
async function nextBlock(blocks: Blocks): Promise<Buffer | undefined> {
  const block = await blocks.read(BLOCK)
  return block && !isZero(block) ? block : undefined
}

const ZEROS = Buffer.alloc(64 * 1024)

function isZero(chunk: Buffer): boolean {
  for (let start = 0; start < chunk.length; start += ZEROS.length) {
    const part = chunk.subarray(start, start + ZEROS.length)
    if (!part.equals(ZEROS.subarray(0, part.length))) return false
  }
  return true
}

const padding = (bytes: number): number => (BLOCK - (bytes % BLOCK)) % BLOCK

function headerOf(block: Buffer): Header {
  const header = decodedHeader(block)
  if (!header?.cksumValid) throw new ArchiveRefused('damaged', 'A header is broken. Is it a tar archive?')
  return header
}

function decodedHeader(block: Buffer): Header | undefined {
  try {
    return new Header(block)
  } catch {
    return undefined // of a number that is none, node-tar says only Error
  }
}

function entryOf(header: Header, { path, linkpath, size }: Extension, blocks: Blocks): TarEntry {
  const name = path ?? header.path ?? ''
  const bytes = size === undefined ? header.size : numberIn(size)
  if (bytes === undefined || !Number.isSafeInteger(bytes)) throw new ArchiveRefused('damaged', 'It has no size.', name)
  return {
    path: name,
    type: header.type,
    mode: header.mode ?? 0,
    uid: header.uid ?? 0,
    gid: header.gid ?? 0,
    mtime: header.mtime,
    linkTarget: linkpath ?? header.linkpath ?? '',
    bytes,
    content: () => blocks.chunks(bytes),
  }
}

const numberIn = (text: string): number | undefined => (/^\d{1,15}$/.test(text) ? Number(text) : undefined)

/** More than any path that we take. */
const EXTENSION_BYTES_MAX = 16 * 1024

/** Undefined when the header is the one of an entry. */
async function readExtension(header: Header, blocks: Blocks): Promise<Extension | undefined> {
  const read = EXTENSIONS[header.type]
  if (!read) return undefined
  const bytes = header.size ?? 0
  if (bytes > EXTENSION_BYTES_MAX) throw new ArchiveRefused('path_too_long', 'An extended header is too long.')
  const content = await blocks.read(bytes + padding(bytes))
  const text = decoded(content?.subarray(0, bytes) ?? Buffer.alloc(0))
  if (text === undefined) throw new ArchiveRefused('unsafe_path', 'A name is no UTF-8.')
  return read(text)
}

const withoutNul = (text: string): string => text.split('\0', 1)[0] ?? ''

const EXTENSIONS: Partial<Record<string, (text: string) => Extension>> = {
  NextFileHasLongPath: (text) => ({ path: withoutNul(text) }),
  OldGnuLongPath: (text) => ({ path: withoutNul(text) }),
  NextFileHasLongLinkpath: (text) => ({ linkpath: withoutNul(text) }),
  ExtendedHeader: paxExtension,
  // About all entries that follow. git writes a comment there; who gives all files one name has something in mind.
  GlobalExtendedHeader: (text) => {
    if (Object.keys(paxExtension(text)).length > 0)
      throw new ArchiveRefused('damaged', 'A global header names entries.')
    return {}
  },
}

/** Records as `30 path=some/long/path\n`, whose length counts all of it, in bytes. */
function paxExtension(text: string): Extension {
  const extension: Extension = {}
  let rest = Buffer.from(text)
  while (rest.length > 0) {
    const [record = '', length = '', key = ''] = /^(\d{1,6}) ([^=\n]+)=/.exec(rest.subarray(0, 300).toString()) ?? []
    const value = rest.subarray(Buffer.byteLength(record), Number(length) - 1).toString()
    if (record === '' || rest.at(Number(length) - 1) !== 0x0a)
      throw new ArchiveRefused('damaged', 'A header is broken.')
    if (key.startsWith('GNU.sparse.')) throw new ArchiveRefused('sparse', 'A sparse file is not unpacked.')
    if (key === 'path' || key === 'linkpath' || key === 'size') extension[key] = value
    rest = rest.subarray(Number(length))
  }
  return extension
}
