import { setTimeout as wait } from 'node:timers/promises'
import type { GatewayOptions } from './options.ts'

/**
 * Limits the bytes of answers that one gateway reads for a workspace. All calls share one event loop, and a provider that
 * a workspace chose may send as fast as the network allows.
 */
export type AnswerPacer = {
  /** Waits until the workspace may read more, after this many bytes. The signal ends the wait. */
  pace(workspaceId: string, bytes: number, signal: AbortSignal): Promise<void> | undefined
}

type PaceOptions = Pick<GatewayOptions, 'answerBytesPerSecond' | 'answerBurstBytes'>

export function createAnswerPacer(options: PaceOptions): AnswerPacer {
  const backlogs = new Map<string, Backlog>()
  const turns = new Map<string, Promise<void>>()
  return {
    pace(workspaceId, bytes, signal) {
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
