import { constants, open as openDescriptor } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'

export type Output = {
  /** Resolves when the last writer has closed the pipe. */
  ended: Promise<{ bytes: number }>
  /** Ends the output of a sandbox that never opened the pipe, which would otherwise wait for a writer. */
  finish(): Promise<void>
  /** Stops copying the output of one of several commands, even if processes continue to write. */
  leave(): Promise<{ bytes: number }>
}

/**
 * Copies a pipe to a file, up to a limit, and counts the rest. The pipe has a name, because programs reopen
 * /dev/stdout, which fails on the sockets that Node gives to its children.
 */
export async function carryOutput(pipe: string, file: string, maxBytes: number): Promise<Output> {
  const target = await open(file, 'w', 0o600)
  const source = await promisify(openDescriptor)(pipe, constants.O_RDONLY | constants.O_NONBLOCK, 0).catch(
    async (error: unknown) => {
      await target.close()
      throw error
    },
  )
  const state = { bytes: 0, left: false }
  return {
    ended: carry({ source, target, maxBytes }, state),
    async finish() {
      const writer = await open(pipe, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined)
      await writer?.close()
    },
    async leave() {
      const deadline = performance.now() + DRAIN_MS
      for (let before = -1; before !== state.bytes && performance.now() < deadline; ) {
        before = state.bytes
        await wait(QUIET_MS)
        await nextTurn()
      }
      state.left = true
      return { bytes: state.bytes }
    },
  }
}

/** Time to read what was written to the pipe before the command ended. */
const QUIET_MS = 20
const DRAIN_MS = 2000

type PipeOutput = { source: number; target: FileHandle; maxBytes: number }

async function carry(
  { source, target, maxBytes }: PipeOutput,
  state: { bytes: number; left: boolean },
): Promise<{ bytes: number }> {
  await using file = target
  // Read as a socket, a pipe holds up none of Node's few threads. It closes the descriptor itself.
  const socket = new Socket({ fd: source, readable: true, writable: false })
  for await (const chunk of socket) {
    if (state.left) continue
    const room = Math.max(0, maxBytes - state.bytes)
    state.bytes += chunk.length
    if (room > 0) await file.writeFile(chunk.length <= room ? chunk : chunk.subarray(0, room))
  }
  return { bytes: state.bytes }
}
