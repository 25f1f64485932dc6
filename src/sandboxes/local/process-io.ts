import { randomUUID } from 'node:crypto'
import { constants, open as openDescriptor, rmSync } from 'node:fs'
import { type FileHandle, mkdir, open, rename } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { shareSuccess } from '../../platform/concurrency.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { renderCommand } from '../kernel/shell.ts'
import type { ImageStore } from './image-store.ts'
import { createRecord } from './record.ts'

/** Output of a command, which is being copied to a file. */
export type CommandOutput = {
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
export async function copyOutput(pipe: string, file: string, maxBytes: number): Promise<CommandOutput> {
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
      let bytesBefore: number
      do {
        bytesBefore = state.bytes
        await wait(QUIET_MS)
        await nextTurn()
      } while (state.bytes !== bytesBefore && performance.now() < deadline)
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

/** Standard input of a command. `send` writes all of it. */
export type CommandInput = { send(): void; close(): void }

/**
 * Feeds content through a named pipe. A sandbox could reopen a regular file as standard input and write to it beyond
 * its disk limit. Content is sent once the sandbox has opened the pipe, because earlier writes would be lost.
 */
export async function openInput(pipe: string, content: string | Buffer): Promise<CommandInput> {
  if (content.length === 0) return { send: () => {}, close: () => {} }
  const fd = await promisify(openDescriptor)(pipe, constants.O_RDWR | constants.O_NONBLOCK, 0)
  const socket = new Socket({ fd, readable: false, writable: true })
  socket.on('error', () => {}) // the command did not read all of its input
  return { send: () => void socket.end(content), close: () => void socket.destroy() }
}

/** Pool of named pipes. They are created many at a time, because each creation starts a process. `put` moves one to a path. */
export type PipePool = { put(namespaceProcess: NamespaceProcess, path: string): Promise<void> }

/** Number of pipes that are created at a time. */
const BATCH_SIZE = 32
const PIPES_PREFIX = 'pipes-'

/** Reports whether a record is that of a pipe folder, not of a sandbox. */
export const isPipeRecord = ({ id }: { id: string }): boolean => id.startsWith(PIPES_PREFIX)

export function createPipePool(store: ImageStore): PipePool {
  const ready: string[] = []
  const openFolder = shareSuccess(() => createPipesFolder(store))
  let filling: Promise<void> | undefined

  const fill = async (namespaceProcess: NamespaceProcess): Promise<void> => {
    const pipesFolder = await openFolder()
    const names = Array.from({ length: BATCH_SIZE }, () => join(pipesFolder, randomUUID()))
    await namespaceProcess.runOrThrow('Making pipes', renderCommand('mkfifo', '-m', '666', ...names))
    ready.push(...names)
  }
  return {
    async put(namespaceProcess, path) {
      let pipe = ready.pop()
      while (pipe === undefined) {
        filling ??= fill(namespaceProcess).finally(() => {
          filling = undefined
        })
        await filling
        pipe = ready.pop()
      }
      await rename(pipe, path)
    },
  }
}

/**
 * Creates the folder of the pipes. It is removed when this process exits; after a crash, `reap` finds it by a record like a
 * sandbox's.
 */
async function createPipesFolder(store: ImageStore): Promise<string> {
  const id = `${PIPES_PREFIX}${randomUUID()}`
  const records = join(store.folder, 'records')
  await createRecord(records, { id, deadline: Number.MAX_SAFE_INTEGER, cgroups: [] })
  const folder = join(store.folder, 'run', id)
  await mkdir(folder, { mode: 0o700, recursive: true })
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true })
    rmSync(join(records, `${id}.json`), { force: true })
  })
  return folder
}
