import type { ServerResponse } from 'node:http'

/** Smaller answers are not counted: the buffers of the connection take them. */
const COUNTED_BYTES_MIN = 64 * 1024

type UnreadLimits = {
  /** Maximum size of the answers of a workspace, or of an address without a key, that wait for their readers. */
  bytesMax: number
  /** Maximum time for which a request waits until answers have been read. */
  waitMs: number
}

const DEFAULT_LIMITS: UnreadLimits = { bytesMax: 64 * 1024 * 1024, waitMs: 10_000 }

type UnreadAnswer = { bytes: number; outgoing: ServerResponse }
type UnreadShare = { bytes: number; answers: Set<UnreadAnswer>; waiting: Set<() => void> }

/**
 * Limits the memory of answers that clients read slowly. While a workspace has too many of them, its requests wait; after
 * a while the oldest unread answer is ended, so that slow readers do not stop others of their workspace.
 */
export function createUnreadAnswers({ bytesMax, waitMs }: UnreadLimits = DEFAULT_LIMITS) {
  const shares = new Map<string, UnreadShare>()

  const remove = (name: string, share: UnreadShare, answer: UnreadAnswer): void => {
    share.answers.delete(answer)
    share.bytes -= answer.bytes
    if (share.answers.size === 0) shares.delete(name)
    for (const wake of share.waiting) wake()
  }

  return {
    /** Counts an answer until it has been sent or its client has left. */
    add(name: string, outgoing: ServerResponse, bytes: number): void {
      if (bytes < COUNTED_BYTES_MIN || outgoing.destroyed) return
      const share: UnreadShare = shares.get(name) ?? { bytes: 0, answers: new Set(), waiting: new Set() }
      shares.set(name, share)
      const answer = { bytes, outgoing }
      share.answers.add(answer)
      share.bytes += bytes
      outgoing.once('close', () => remove(name, share, answer))
    },
    /** Waits until the unread answers are within the limit. */
    async makeRoom(name: string): Promise<void> {
      for (let share = shares.get(name); share && share.bytes > bytesMax; share = shares.get(name)) {
        const isRead = await waitForReader(share, waitMs)
        const [oldest] = share.answers
        if (!isRead) oldest?.outgoing.destroy()
      }
    },
  }
}

/** Waits until an answer has ended. Returns false if none does in time. */
async function waitForReader({ waiting }: UnreadShare, waitMs: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const wake = () => resolve(true)
  const timer = setTimeout(() => resolve(false), waitMs)
  waiting.add(wake)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
    waiting.delete(wake)
  }
}
