import { Header, Pax } from 'tar'

/** What stands in front of a file's content. A link's target is in `link`. */
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
/** Without set-user-id and its like. */
export const PLAIN_MODE = 0o777

export function tarHeader({ path, type, link, mode, mtime = new Date(), ...facts }: TarFacts): Buffer {
  const fields = {
    ...facts,
    mtime,
    type,
    path: type === 'Directory' ? `${path.replace(/\/+$/, '')}/` : path,
    mode,
    ...(type === 'SymbolicLink' || type === 'Link' ? { linkpath: link ?? '' } : {}),
  }
  const block = Buffer.alloc(BLOCK)
  const tooLong = new Header(fields).encode(block)
  return tooLong ? Buffer.concat([new Pax(fields).encode(), block]) : block
}

export const tarPadding = (bytes: number): Buffer => Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK)

export const tarEnd = (): Buffer => Buffer.alloc(2 * BLOCK)

/** A whole small file of root's. */
export const tarFile = (path: string, content: Buffer, mode: number): Buffer[] => [
  tarHeader({ path, type: 'File', mode, uid: 0, gid: 0, size: content.length }),
  content,
  tarPadding(content.length),
]
