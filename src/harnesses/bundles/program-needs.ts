import { constants } from 'node:fs'
import { type FileHandle, open, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { arch } from 'node:process'

const MACHINES: Record<number, { name: string; arch: string }> = {
  3: { name: '32-bit x86', arch: 'ia32' },
  40: { name: '32-bit ARM', arch: 'arm' },
  62: { name: 'x86-64', arch: 'x64' },
  183: { name: 'ARM 64', arch: 'arm64' },
  243: { name: 'RISC-V', arch: 'riscv64' },
}
const HEAD_BYTES = 64
const SEGMENTS_MAX = 64
const INTERPRETER = 3
const NAME_BYTES_MAX = 256

/** In a sentence, why a program that did not run may have not. It is a stranger's file, of which a little is read. */
export async function programNeeds(bundle: string, program: string): Promise<string> {
  await using file = await openInside(bundle, program)
  if (!file) return 'There is no such file in the bundle.'
  const read = async (at: number, bytes: number) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at)
    return buffer.subarray(0, bytesRead)
  }
  const head = await read(0, HEAD_BYTES)
  if (head.subarray(0, 2).toString('latin1') === '#!') return scriptNeeds(await read(0, NAME_BYTES_MAX))
  if (head.subarray(0, 4).toString('latin1') !== '\u007fELF' || head.length < HEAD_BYTES)
    return 'It is neither a program for Linux nor a script.'
  const machine = MACHINES[head.readUInt16LE(18)]
  if (machine?.arch !== arch)
    return `It is made for ${machine?.name ?? 'another kind of machine'}, and this machine is ${arch}.`
  const loader = await loaderOf(head, read)
  return loader === undefined
    ? 'It is made for this kind of machine, and needs no C library.'
    : `It needs ${loader} in the image, and the libraries that belong to it.`
}

/** No link is followed any more, and no writer waited for. */
const PLAINLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** A plain file of the bundle. Where links lead counts, not how the path is written. */
async function openInside(bundle: string, program: string): Promise<FileHandle | undefined> {
  const [root, path] = await Promise.all([realpath(bundle), realpath(join(bundle, program)).catch(() => undefined)])
  if (!path?.startsWith(root + sep)) return undefined
  const file = await open(path, PLAINLY).catch(() => undefined)
  if ((await file?.stat())?.isFile()) return file
  await file?.close()
  return undefined
}

/** Names are shown to people, so only what is one. */
const nameIn = (text: string): string | undefined => /^[\x21-\x7e]+/.exec(text)?.[0]

const scriptNeeds = (start: Buffer): string => {
  const [line = ''] = start.subarray(2).toString('latin1').trimStart().split('\n')
  const words = /^[\x20-\x7e]+/.exec(line)?.[0].trim()
  return words ? `It needs ${words} in the image.` : 'It is a script for nothing.'
}

type Read = (at: number, bytes: number) => Promise<Buffer>

/** The loader of a C library, which is what an image with another one does not have. */
async function loaderOf(head: Buffer, read: Read): Promise<string | undefined> {
  const [from, bytes] = [Number(head.readBigUInt64LE(32)), head.readUInt16LE(54)]
  const count = Math.min(head.readUInt16LE(56), SEGMENTS_MAX)
  if (!Number.isSafeInteger(from) || bytes < 56) return undefined
  for (let n = 0; n < count; n++) {
    const segment = await read(from + n * bytes, 56)
    if (segment.length < 56) return undefined
    if (segment.readUInt32LE(0) !== INTERPRETER) continue
    const at = Number(segment.readBigUInt64LE(8))
    return Number.isSafeInteger(at) ? nameIn((await read(at, NAME_BYTES_MAX)).toString('latin1')) : undefined
  }
  return undefined
}
