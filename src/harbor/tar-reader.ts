import { Header } from 'tar'
import { ArchiveRefused } from './archive-stream.ts'
import { decodeUtf8 } from './source.ts'

/** An unchecked entry of an archive. */
export type TarEntry = {
  path: string
  /** Type name of node-tar, for example File or SymbolicLink. */
  type: string
  mode: number
  uid: number
  gid: number
  mtime: Date | undefined
  linkTarget: string
  /** Size of the content. */
  bytes: number
  /** Must be consumed before the next entry is requested. */
  content: () => AsyncGenerator<Buffer>
}

const BLOCK = 512
/** Values of extended headers, which apply to the next entry. */
type HeaderExtension = { path?: string; linkpath?: string; size?: string }

/**
 * Reads the entries of a tar stream. Headers are decoded by node-tar, but its parser is not used: it decodes long names
 * chunk by chunk, may unzip a second time, and continues after invalid data.
 */
export async function* readTarEntries(stream: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const blocks = createBlockReader(stream)
  try {
    yield* readEntries(blocks)
    for await (const rest of blocks.rest()) {
      if (!isZero(rest)) throw new ArchiveRefused('damaged', 'The archive has data after its end.')
    }
  } finally {
    await blocks.close()
  }
}

async function* readEntries(blocks: BlockReader): AsyncGenerator<TarEntry> {
  let extension: HeaderExtension = {}
  for (let block = await readBlock(blocks); block; block = await readBlock(blocks)) {
    const header = parseHeader(block)
    const extended = await readExtension(header, blocks)
    if (extended) {
      extension = { ...extension, ...extended }
      continue
    }
    const entry = toEntry(header, extension, blocks)
    extension = {}
    yield entry
    await blocks.skip(paddingOf(entry.bytes))
  }
  if (Object.keys(extension).length > 0)
    throw new ArchiveRefused('damaged', 'The archive ends after an extended header.')
}

/** Reads a header block. Returns undefined at the end, which is a block of zeros. */
async function readBlock(blocks: BlockReader): Promise<Buffer | undefined> {
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

const paddingOf = (bytes: number): number => (BLOCK - (bytes % BLOCK)) % BLOCK

function parseHeader(block: Buffer): Header {
  const header = decodeHeader(block)
  if (!header?.cksumValid) throw new ArchiveRefused('damaged', 'Invalid header. The file may not be a tar archive.')
  return header
}

function decodeHeader(block: Buffer): Header | undefined {
  try {
    return new Header(block)
  } catch {
    return undefined // node-tar throws a plain Error for an invalid number
  }
}

function toEntry(header: Header, { path, linkpath, size }: HeaderExtension, blocks: BlockReader): TarEntry {
  const name = path ?? header.path ?? ''
  const bytes = size === undefined ? header.size : parseSize(size)
  if (bytes === undefined || !Number.isSafeInteger(bytes))
    throw new ArchiveRefused('damaged', 'The size is missing or invalid.', name)
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

const parseSize = (text: string): number | undefined => (/^\d{1,15}$/.test(text) ? Number(text) : undefined)

/** Larger than any accepted path. */
const EXTENSION_BYTES_MAX = 16 * 1024

/** Reads an extended header. Returns undefined if the header belongs to an entry. */
async function readExtension(header: Header, blocks: BlockReader): Promise<HeaderExtension | undefined> {
  const read = EXTENSIONS[header.type]
  if (!read) return undefined
  const bytes = header.size ?? 0
  if (bytes > EXTENSION_BYTES_MAX) throw new ArchiveRefused('path_too_long', 'Extended header too long.')
  const content = await blocks.read(bytes + paddingOf(bytes))
  const text = decodeUtf8(content?.subarray(0, bytes) ?? Buffer.alloc(0))
  if (text === undefined) throw new ArchiveRefused('unsafe_path', 'A name is not valid UTF-8.')
  return read(text)
}

const cutAtNul = (text: string): string => text.split('\0', 1)[0] ?? ''

const EXTENSIONS: Partial<Record<string, (text: string) => HeaderExtension>> = {
  NextFileHasLongPath: (text) => ({ path: cutAtNul(text) }),
  OldGnuLongPath: (text) => ({ path: cutAtNul(text) }),
  NextFileHasLongLinkpath: (text) => ({ linkpath: cutAtNul(text) }),
  ExtendedHeader: parsePax,
  // Applies to all following entries. git stores a comment there; a path would give all files the same name.
  GlobalExtendedHeader: (text) => {
    if (Object.keys(parsePax(text)).length > 0)
      throw new ArchiveRefused('damaged', 'A global header must not set a path, link or size.')
    return {}
  },
}

/** Maximum size of the length and the key of a record. */
const RECORD_START_BYTES_MAX = 300
const LINE_FEED = 0x0a

/** Parses records such as `30 path=some/long/path\n`. The length is in bytes and includes the whole record. */
function parsePax(text: string): HeaderExtension {
  const extension: HeaderExtension = {}
  let rest = Buffer.from(text)
  while (rest.length > 0) {
    const start = rest.subarray(0, RECORD_START_BYTES_MAX).toString()
    const [prefix = '', length = '', key = ''] = /^(\d{1,6}) ([^=\n]+)=/.exec(start) ?? []
    const value = rest.subarray(Buffer.byteLength(prefix), Number(length) - 1).toString()
    if (prefix === '' || rest.at(Number(length) - 1) !== LINE_FEED)
      throw new ArchiveRefused('damaged', 'Invalid extended header.')
    if (key.startsWith('GNU.sparse.')) throw new ArchiveRefused('sparse', 'Sparse files are not allowed.')
    if (key === 'path' || key === 'linkpath' || key === 'size') extension[key] = value
    rest = rest.subarray(Number(length))
  }
  return extension
}

/** Reads a stream in blocks of any size. */
type BlockReader = {
  /** Reads exactly this many bytes. Returns undefined at the end of the stream; throws if it ends within the block. */
  read(bytes: number): Promise<Buffer | undefined>
  /** Yields the next bytes in chunks as they arrive. */
  chunks(bytes: number): AsyncGenerator<Buffer>
  skip(bytes: number): Promise<void>
  /** Yields everything up to the end of the stream. */
  rest(): AsyncGenerator<Buffer>
  /** Releases the stream, even if it was not read to the end. */
  close(): Promise<void>
}

function createBlockReader(stream: AsyncIterable<Buffer>): BlockReader {
  const source = stream[Symbol.asyncIterator]()
  let buffered: Buffer = Buffer.alloc(0)

  /** Buffers the next chunk. Returns false at the end of the stream. */
  async function readMore(): Promise<boolean> {
    const { done, value } = await source.next()
    if (done) return false
    buffered = buffered.length === 0 ? value : Buffer.concat([buffered, value])
    return true
  }

  const blocks: BlockReader = {
    async read(bytes) {
      while (buffered.length < bytes) {
        if (await readMore()) continue
        if (buffered.length === 0) return undefined
        throw new ArchiveRefused('damaged', 'The archive ends in the middle of an entry.')
      }
      const taken = buffered.subarray(0, bytes)
      buffered = buffered.subarray(bytes)
      return taken
    },
    async *chunks(bytes) {
      for (let remaining = bytes; remaining > 0; ) {
        if (buffered.length === 0 && !(await readMore()))
          throw new ArchiveRefused('damaged', 'The archive ends in the middle of a file.')
        const taken = buffered.subarray(0, remaining)
        buffered = buffered.subarray(taken.length)
        remaining -= taken.length
        if (taken.length > 0) yield taken
      }
    },
    async skip(bytes) {
      for await (const _ of blocks.chunks(bytes));
    },
    async *rest() {
      if (buffered.length > 0) yield buffered
      buffered = Buffer.alloc(0)
      while (await readMore()) {
        yield buffered
        buffered = Buffer.alloc(0)
      }
    },
    async close() {
      await source.return?.()
    },
  }
  return blocks
}
