import { GitFailed, streamGit } from './git.ts'
import { LINE_END } from './pieces.ts'
import type { GitLocation } from './settings.ts'

const HEADER = /^[0-9a-f]+ blob (\d+)$/

/**
 * Yields files with their contents in the given order, one at a time. Throws GitFailed when an id is missing, is not a
 * file, or exceeds `bytesMax`: callers know the sizes.
 */
export async function* readBlobs<F extends { id: string }>(
  location: GitLocation,
  files: readonly F[],
  { signal, bytesMax }: { signal: AbortSignal; bytesMax: number },
): AsyncGenerator<F & { content: Buffer }, void, undefined> {
  if (files.length === 0) return
  const input = files.map(({ id }) => `${id}\n`).join('')
  const reader = createReader(streamGit(location, ['cat-file', '--batch'], { signal, input: [input] }))
  for (const file of files) {
    const line = await reader.line()
    const size = HEADER.exec(line)?.[1]
    if (size === undefined || Number(size) > bytesMax) throw new GitFailed(`cannot read file: ${line}`, false)
    const content = await reader.take(Number(size))
    await reader.take(1)
    yield { ...file, content }
  }
}

type Reader = { line(): Promise<string>; take(bytes: number): Promise<Buffer> }

function createReader(stream: AsyncGenerator<Buffer, void, undefined>): Reader {
  let held: Buffer = Buffer.alloc(0)
  const more = async (): Promise<Buffer> => {
    const { value, done } = await stream.next()
    if (done || !value) throw new GitFailed('unexpected end of output', false)
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
