import { gzipSync } from 'node:zlib'

/** An unchecked tar entry. node-tar would refuse to write most entries that the tests need. */
export type RawEntry = {
  name: string | Buffer
  content?: string | Buffer
  /** 0 file, 1 hard link, 2 link, 3 and 4 devices, 5 folder, 6 pipe, S sparse, x and L extensions. */
  type?: string
  mode?: number
  target?: string
  /** Overrides the size in the header. */
  size?: number | Buffer
  prefix?: string
  magic?: string
}

export const tar = (...entries: RawEntry[]): Buffer => Buffer.concat([...entries.map(rawEntry), Buffer.alloc(1024)])

export const tgz = (...entries: RawEntry[]): Buffer => gzipSync(tar(...entries))

export function rawEntry(entry: RawEntry): Buffer {
  const content = Buffer.from(entry.content ?? '')
  const header = Buffer.alloc(512)
  Buffer.from(entry.name).copy(header, 0, 0, 100)
  header.write(octal(entry.mode ?? 0o644, 8), 100)
  header.write(octal(0, 8), 108)
  header.write(octal(0, 8), 116)
  if (Buffer.isBuffer(entry.size)) entry.size.copy(header, 124)
  else header.write(octal(entry.size ?? content.length, 12), 124)
  header.write(octal(0, 12), 136)
  header.write(entry.type ?? '0', 156)
  header.write(entry.target ?? '', 157, 100)
  header.write(entry.magic ?? 'ustar\u000000', 257, 'latin1')
  header.write(entry.prefix ?? '', 345, 155)
  header.write('        ', 148)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${octal(sum, 7)} `, 148)
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}

const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, '0')}\0`

/** Creates an extended header for the next entry. */
export const pax = (records: Record<string, string>): RawEntry => ({
  name: 'PaxHeader',
  type: 'x',
  content: Object.entries(records).map(paxRecord).join(''),
})

function paxRecord([key, value]: [string, string]): string {
  const rest = ` ${key}=${value}\n`
  const length = Buffer.byteLength(rest)
  const digits = [1, 2, 3, 4, 5].find((count) => String(length + count).length === count) ?? 0
  return `${length + digits}${rest}`
}
