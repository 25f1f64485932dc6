import { type FileHandle, open, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { arch } from 'node:process'
import { UNTRUSTED_FILE_FLAGS } from '../../harbor/folder-source.ts'

/** Values of `e_machine` in an ELF header. */
const MACHINES: Record<number, { name: string; arch: string }> = {
  3: { name: '32-bit x86', arch: 'ia32' },
  40: { name: '32-bit ARM', arch: 'arm' },
  62: { name: 'x86-64', arch: 'x64' },
  183: { name: 'ARM 64', arch: 'arm64' },
  243: { name: 'RISC-V', arch: 'riscv64' },
}
/** Positions of `e_machine`, `e_phoff`, `e_phentsize` and `e_phnum` in a 64-bit ELF header. */
const HEADER_OFFSET = { machine: 18, segments: 32, segmentBytes: 54, segmentCount: 56 }
/** Position of `p_offset`, the place of its content in the file, in a program header. */
const CONTENT_OFFSET = 8
const HEADER_BYTES = 64
const SEGMENTS_MAX = 64
/** Type of the program header that names the dynamic loader (PT_INTERP), and the size of a 64-bit program header. */
const SEGMENT_INTERPRETER = 3
const SEGMENT_BYTES = 56
const NAME_BYTES_MAX = 256

/** Explains in a sentence why a program may have failed to start. The file is untrusted; only its headers are read. */
export async function describeProgramNeeds(bundle: string, program: string): Promise<string> {
  await using file = await openBundleFile(bundle, program)
  if (!file) return 'The bundle does not contain this file.'
  const read = async (at: number, bytes: number) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at)
    return buffer.subarray(0, bytesRead)
  }
  const header = await read(0, HEADER_BYTES)
  if (header.subarray(0, 2).toString('latin1') === '#!') return describeScriptNeeds(await read(0, NAME_BYTES_MAX))
  if (header.subarray(0, 4).toString('latin1') !== '\u007fELF' || header.length < HEADER_BYTES)
    return 'It is neither a Linux executable nor a script.'
  const machine = MACHINES[header.readUInt16LE(HEADER_OFFSET.machine)]
  if (machine?.arch !== arch)
    return `It is built for ${machine?.name ?? 'another architecture'}, but this machine is ${arch}.`
  const loader = await findLoader(header, read)
  return loader === undefined
    ? "It is built for this machine's architecture and needs no C library."
    : `It needs ${loader} and its libraries in the image.`
}

/** Opens a regular file of the bundle. The resolved path must be inside the bundle. */
async function openBundleFile(bundle: string, program: string): Promise<FileHandle | undefined> {
  const [root, path] = await Promise.all([realpath(bundle), realpath(join(bundle, program)).catch(() => undefined)])
  if (!path?.startsWith(root + sep)) return undefined
  const file = await open(path, UNTRUSTED_FILE_FLAGS).catch(() => undefined)
  if ((await file?.stat())?.isFile()) return file
  await file?.close()
  return undefined
}

/** Returns the printable prefix of a name. The name is untrusted, and the result is displayed. */
const readPrintableName = (text: string): string | undefined => /^[\x21-\x7e]+/.exec(text)?.[0]

const describeScriptNeeds = (start: Buffer): string => {
  const [line = ''] = start.subarray(2).toString('latin1').trimStart().split('\n')
  const words = /^[\x20-\x7e]+/.exec(line)?.[0].trim()
  return words ? `It needs ${words} in the image.` : 'It is a script that names no interpreter.'
}

type ReadBytes = (at: number, bytes: number) => Promise<Buffer>

/** Returns the path of the program's dynamic loader, which images with another C library do not have. */
async function findLoader(header: Buffer, read: ReadBytes): Promise<string | undefined> {
  const tableOffset = Number(header.readBigUInt64LE(HEADER_OFFSET.segments))
  const entryBytes = header.readUInt16LE(HEADER_OFFSET.segmentBytes)
  const count = Math.min(header.readUInt16LE(HEADER_OFFSET.segmentCount), SEGMENTS_MAX)
  if (!Number.isSafeInteger(tableOffset) || entryBytes < SEGMENT_BYTES) return undefined
  for (let index = 0; index < count; index++) {
    const segment = await read(tableOffset + index * entryBytes, SEGMENT_BYTES)
    if (segment.length < SEGMENT_BYTES) return undefined
    if (segment.readUInt32LE(0) !== SEGMENT_INTERPRETER) continue
    const nameOffset = Number(segment.readBigUInt64LE(CONTENT_OFFSET))
    return Number.isSafeInteger(nameOffset)
      ? readPrintableName((await read(nameOffset, NAME_BYTES_MAX)).toString('latin1'))
      : undefined
  }
  return undefined
}
