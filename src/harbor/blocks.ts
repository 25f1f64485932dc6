import { ArchiveRefused } from './archive-refused.ts'

/** A stream, read in pieces of the reader's choice. */
export type Blocks = {
  /** So many bytes, or undefined at the end of the stream. A stream that ends in between is damaged. */
  read(bytes: number): Promise<Buffer | undefined>
  /** The next so many bytes as they come. */
  chunks(bytes: number): AsyncGenerator<Buffer>
  skip(bytes: number): Promise<void>
  /** What is left of the stream. */
  rest(): AsyncGenerator<Buffer>
  /** Gives the stream back, read or not. */
  close(): Promise<void>
}

export function newBlocks(stream: AsyncIterable<Buffer>): Blocks {
  const source = stream[Symbol.asyncIterator]()
  let buffered: Buffer = Buffer.alloc(0)

  /** False at the end of the stream. */
  async function more(): Promise<boolean> {
    const { done, value } = await source.next()
    if (done) return false
    buffered = buffered.length === 0 ? value : Buffer.concat([buffered, value])
    return true
  }

  const blocks: Blocks = {
    async read(bytes) {
      while (buffered.length < bytes) {
        if (await more()) continue
        if (buffered.length === 0) return undefined
        throw new ArchiveRefused('damaged', 'It ends in the middle of an entry.')
      }
      const taken = buffered.subarray(0, bytes)
      buffered = buffered.subarray(bytes)
      return taken
    },
    async *chunks(bytes) {
      for (let left = bytes; left > 0; ) {
        if (buffered.length === 0 && !(await more()))
          throw new ArchiveRefused('damaged', 'It ends in the middle of a file.')
        const taken = buffered.subarray(0, left)
        buffered = buffered.subarray(taken.length)
        left -= taken.length
        if (taken.length > 0) yield taken
      }
    },
    async skip(bytes) {
      for await (const _ of blocks.chunks(bytes));
    },
    async *rest() {
      if (buffered.length > 0) yield buffered
      buffered = Buffer.alloc(0)
      while (await more()) {
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
