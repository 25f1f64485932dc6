import { Header, type HeaderData, Pax } from 'tar'

/** Fields of a tar header. `link` is the target of a link. */
export type TarHeaderFields = {
  path: string
  type: 'File' | 'Directory' | 'SymbolicLink' | 'Link'
  mode: number
  uid: number
  gid: number
  size: number
  mtime?: Date | undefined
  link?: string
}

const BLOCK_BYTES = 512
const PATH_FIELD_BYTES = 100
/** Mode bits without set-user-id, set-group-id and sticky. */
export const PLAIN_MODE = 0o777

/**
 * Number of characters of a long path that are kept in its plain header; the extended header has the whole path. In
 * UTF-8 they take at most 96 of the 100 bytes of the field.
 */
const PATH_FIELD_CHARACTERS = 24

/**
 * Returns the header of an entry. Long paths are not passed to node-tar, because the time that it takes to split them
 * into prefix and name grows with the square of the depth.
 */
export function tarHeader({ path, type, link, mode, mtime = new Date(), uid, gid, size }: TarHeaderFields): Buffer {
  const fullPath = type === 'Directory' ? `${path.replace(/\/+$/, '')}/` : path
  const fields: HeaderData = { path: fullPath, type, mode, uid, gid, size, mtime }
  if (type === 'SymbolicLink' || type === 'Link') fields.linkpath = link ?? ''
  const block = Buffer.alloc(BLOCK_BYTES)
  const isLong = Buffer.byteLength(fullPath) >= PATH_FIELD_BYTES
  const header = new Header(isLong ? { ...fields, path: fullPath.slice(-PATH_FIELD_CHARACTERS) } : fields)
  const needsPax = header.encode(block)
  return isLong || needsPax ? Buffer.concat([new Pax(fields).encode(), block]) : block
}

/** Returns the zero bytes that fill the last block of a file's content. */
export const tarPadding = (bytes: number): Buffer => Buffer.alloc((BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES)

/** Returns the end-of-archive blocks. */
export const tarEnd = (): Buffer => Buffer.alloc(2 * BLOCK_BYTES)

/** Appends the end-of-archive blocks, which tar requires even for an empty archive. */
export async function* appendTarEnd(tar: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* tar
  yield tarEnd()
}

/** Returns the archive entry of a small file that belongs to root. */
export const tarFile = (path: string, content: Buffer, mode: number): Buffer[] => [
  tarHeader({ path, type: 'File', mode, uid: 0, gid: 0, size: content.length }),
  content,
  tarPadding(content.length),
]
