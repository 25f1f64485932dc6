import { constants, open as openDescriptor } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Socket } from 'node:net'
import { promisify } from 'node:util'

export type Output = {
  /** Resolves when the last writer is gone. */
  ended: Promise<{ bytes: number }>
  /** For a sandbox that ended before it opened the pipe: nobody would ever be the last. */
  finish(): Promise<void>
}

/**
 * Carries what comes out of a pipe to a file, up to a limit, and counts the rest. A pipe with a name, because programs
 * open /dev/stdout anew, which fails on the sockets that Node gives to its children.
 */
export async function carryOutput(pipe: string, file: string, maxBytes: number): Promise<Output> {
  const target = await open(file, 'w', 0o600)
  const source = await promisify(openDescriptor)(pipe, constants.O_RDONLY | constants.O_NONBLOCK, 0).catch(
    async (error: unknown) => {
      await target.close()
      throw error
    },
  )
  return {
    ended: carry(source, target, maxBytes),
    async finish() {
      const writer = await open(pipe, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined)
      await writer?.close()
    },
  }
}

async function carry(fd: number, target: FileHandle, maxBytes: number): Promise<{ bytes: number }> {
  await using file = target
  // Read as a socket, a pipe holds up none of Node's few threads. It closes the descriptor itself.
  const socket = new Socket({ fd, readable: true, writable: false })
  let bytes = 0
  for await (const chunk of socket) {
    const room = Math.max(0, maxBytes - bytes)
    bytes += chunk.length
    if (room > 0) await file.writeFile(chunk.length <= room ? chunk : chunk.subarray(0, room))
  }
  return { bytes }
}
