import { GitFailed, streamGit } from './git.ts'
import { LINE_END } from './pieces.ts'
import type { GitPlace } from './settings.ts'

const HEADER = /^[0-9a-f]+ blob (\d+)$/

/**
 * Files with their contents, by their ids and in the order they were asked for, one at a time. Throws GitFailed when one is
 * not there, is no file, or is larger than allowed: whoever asks knows the sizes.
 */
export async function* readBlobs<F extends { id: string }>(
  place: GitPlace,
  files: readonly F[],
  { signal, bytesMax }: { signal: AbortSignal; bytesMax: number },
): AsyncGenerator<F & { content: Buffer }, void, undefined> {
  if (files.length === 0) return
  const input = files.map(({ id }) => `${id}\n`).join('')
  const reader = readerOf(streamGit(place, ['cat-file', '--batch'], { signal, input: [input] }))
  for (const file of files) {
    const line = await reader.line()
    const size = HEADER.exec(line)?.[1]
    if (size === undefined || Number(size) > bytesMax) throw new GitFailed(`A file cannot be read: ${line}`, false)
    const content = await reader.take(Number(size))
    await reader.take(1)
    yield { ...file, content }
  }
}

type Reader = { line(): Promise<string>; take(bytes: number): Promise<Buffer> }

function readerOf(stream: AsyncGenerator<Buffer, void, undefined>): Reader {
  let held: Buffer = Buffer.alloc(0)
  const more = async (): Promise<Buffer> => {
    const { value, done } = await stream.next()
    if (done || !value) throw new GitFailed('It ended in the middle of a file', false)
    return value
  }
  const take = async (bytes: number): Promise<Buffer> => {
    const chunks = [held]
    let length = held.length
    while (length < bytes) {
      const chunk = await more()
      chunks.push(chunk)
      length += chunk.length
    }
    const all = chunks.length === 1 ? held : Buffer.concat(chunks)
    held = all.subarray(bytes)
    return all.subarray(0, bytes)
  }
  return {
    take,
    async line() {
      while (!held.includes(LINE_END)) held = Buffer.concat([held, await more()])
      const line = await take(held.indexOf(LINE_END) + 1)
      return line.toString('latin1', 0, line.length - 1)
    },
  }
}
