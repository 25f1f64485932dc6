import { setTimeout as wait } from 'node:timers/promises'
import type { GatewayOptions } from './options.ts'

/**
 * Limits what one gateway reads of answers for a workspace. All calls share one event loop, and a provider that a
 * workspace chose may send as fast as the network allows.
 */
export type AnswerPacer = {
  /** Waits until the workspace may read this chunk. The signal ends the wait. */
  pace(workspaceId: string, chunk: Uint8Array, signal: AbortSignal): Promise<void> | undefined
}

/** Bytes that every chunk and every line count at least. Reading them takes time, however short they are. */
const CHUNK_BYTES = 256
const LINE_BYTES = 128
const LF = 10
const CR = 13

/** Returns the number of bytes that a chunk counts. Those of ordinary answers count little more than their size. */
export function weighChunk(chunk: Uint8Array): number {
  let lines = 0
  for (const byte of chunk) if (byte === LF || byte === CR) lines += 1
  return Math.max(chunk.length, CHUNK_BYTES + lines * LINE_BYTES)
}

type PaceOptions = Pick<GatewayOptions, 'answerBytesPerSecond' | 'answerBurstBytes'>

export function createAnswerPacer(options: PaceOptions): AnswerPacer {
  const backlogs = new Map<string, Backlog>()
  const turns = new Map<string, Promise<void>>()
  return {
    pace(workspaceId, chunk, signal) {
      const bytes = weighChunk(chunk)
      const backlog = addToBacklog(backlogs.get(workspaceId), { bytes, at: performance.now() }, options)
      backlogs.set(workspaceId, backlog)
      if (backlog.bytes <= options.answerBurstBytes) return undefined
      const ownMs = (bytes / options.answerBytesPerSecond) * 1000
      // Answers wait one after the other. If they continued at the same time, they would be parsed without a break.
      const turn = (turns.get(workspaceId) ?? Promise.resolve()).then(() => waitUnlessAborted(ownMs, signal))
      turns.set(workspaceId, turn)
      return turn
    },
  }
}

const waitUnlessAborted = (ms: number, signal: AbortSignal): Promise<void> =>
  wait(ms, undefined, { signal }).catch(() => {})

/** Bytes that were read above the rate, at a time in milliseconds. */
type Backlog = { bytes: number; at: number }

/** Returns the backlog after more bytes were read. It shrinks with time, at the allowed rate. */
export function addToBacklog(
  last: Backlog | undefined,
  { bytes, at }: Backlog,
  { answerBytesPerSecond }: PaceOptions,
): Backlog {
  if (!last) return { bytes, at }
  const allowed = ((at - last.at) / 1000) * answerBytesPerSecond
  return { bytes: Math.max(0, last.bytes - allowed) + bytes, at }
}
