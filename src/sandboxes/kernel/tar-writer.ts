import { Header, type HeaderData, Pax } from 'tar'

/** Fields of a tar header. `link` is the target of a link. */
export type TarFacts = {
  path: string
  type: 'File' | 'Directory' | 'SymbolicLink' | 'Link'
  mode: number
  uid: number
  gid: number
  size: number
  mtime?: Date | undefined
  link?: string
}

const BLOCK = 512
const PATH_FIELD_BYTES = 100
/** Mode bits without set-user-id, set-group-id and sticky. */
export const PLAIN_MODE = 0o777

/** A longer path goes into an extended header. In UTF-8 this many characters take less than the 100 bytes of the field. */
const PATH_FIELD_CHARACTERS = 24

/**
 * Returns the header of an entry. Long paths are not passed to node-tar, because the time that it takes to split them
 * into prefix and name grows with the square of the depth.
 */
export function tarHeader({ path, type, link, mode, mtime = new Date(), uid, gid, size }: TarFacts): Buffer {
  const fullPath = type === 'Directory' ? `${path.replace(/\/+$/, '')}/` : path
  const fields: HeaderData = { path: fullPath, type, mode, uid, gid, size, mtime }
  if (type === 'SymbolicLink' || type === 'Link') fields.linkpath = link ?? ''
  const block = Buffer.alloc(BLOCK)
  const isLong = Buffer.byteLength(fullPath) >= PATH_FIELD_BYTES
  const needsPax = new Header(isLong ? { ...fields, path: fullPath.slice(-PATH_FIELD_CHARACTERS) } : fields).encode(
    block,
  )
  return isLong || needsPax ? Buffer.concat([new Pax(fields).encode(), block]) : block
}

export const tarPadding = (bytes: number): Buffer => Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK)

export const tarEnd = (): Buffer => Buffer.alloc(2 * BLOCK)

/** Returns the archive entry of a small file that belongs to root. */
export const tarFile = (path: string, content: Buffer, mode: number): Buffer[] => [
  tarHeader({ path, type: 'File', mode, uid: 0, gid: 0, size: content.length }),
  content,
  tarPadding(content.length),
]
