import { constants, open as openDescriptor } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'

export type Output = {
  /** Resolves when the last writer has closed the pipe. */
  ended: Promise<{ bytes: number }>
  /** Ends the output of a sandbox that never opened the pipe. Without it, `ended` would wait for a writer forever. */
  finish(): Promise<void>
  /** Stops copying after a command has ended, even if its background processes continue to write. */
  stopCopying(): Promise<{ bytes: number }>
}

/**
 * Copies a pipe to a file, up to a limit, and counts the rest. The pipe has a name, because programs reopen
 * /dev/stdout, which fails on the sockets that Node gives to its children.
 */
export async function copyOutput(pipe: string, file: string, maxBytes: number): Promise<Output> {
  const target = await open(file, 'w', 0o600)
  const source = await promisify(openDescriptor)(pipe, constants.O_RDONLY | constants.O_NONBLOCK, 0).catch(
    async (error: unknown) => {
      await target.close()
      throw error
    },
  )
  const state = { bytes: 0, isStopped: false }
  return {
    ended: copyPipe({ source, target, maxBytes }, state),
    async finish() {
      const writer = await open(pipe, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined)
      await writer?.close()
    },
    async stopCopying() {
      const deadline = performance.now() + DRAIN_MS
      for (let before = -1; before !== state.bytes && performance.now() < deadline; ) {
        before = state.bytes
        await wait(QUIET_MS)
        await nextTurn()
      }
      state.isStopped = true
      return { bytes: state.bytes }
    },
  }
}

/** Reading stops when the pipe was empty for `QUIET_MS`, and after `DRAIN_MS` at the latest. */
const QUIET_MS = 20
const DRAIN_MS = 2000

type PipeOutput = { source: number; target: FileHandle; maxBytes: number }

async function copyPipe(
  { source, target, maxBytes }: PipeOutput,
  state: { bytes: number; isStopped: boolean },
): Promise<{ bytes: number }> {
  await using file = target
  // A socket reads the pipe without blocking a thread of Node's thread pool, and closes the descriptor at the end.
  const socket = new Socket({ fd: source, readable: true, writable: false })
  for await (const chunk of socket) {
    if (state.isStopped) continue
    const remaining = Math.max(0, maxBytes - state.bytes)
    state.bytes += chunk.length
    if (remaining > 0) await file.writeFile(chunk.length <= remaining ? chunk : chunk.subarray(0, remaining))
  }
  return { bytes: state.bytes }
}

export type Input = { send(): void; close(): void }

/**
 * Feeds content through a named pipe. A sandbox could reopen a regular file as standard input and write to it beyond
 * its disk limit. Content is sent once the sandbox has opened the pipe, because earlier writes would be lost.
 */
export async function openInput(pipe: string, content: string | Buffer): Promise<Input> {
  if (content.length === 0) return { send: () => {}, close: () => {} }
  const fd = await promisify(openDescriptor)(pipe, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: false, writable: true })
  socket.on('error', () => {}) // the command did not read all of its input
  return { send: () => void socket.end(content), close: () => void socket.destroy() }
}
