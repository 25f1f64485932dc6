import type { Readable } from 'node:stream'
import type { Client } from './client.ts'
import type { Ear } from './listen-in.ts'
import type { GatewayOptions } from './options.ts'
import type { Watch } from './watch.ts'

/** `stalledMs`: the longest that the client let us wait. Providers hang up on who does not read. */
export type Relayed = { wasCut: boolean; firstByteAt: number | null; stalledMs: number }

type Options = Pick<GatewayOptions, 'drainBytes' | 'answerBytes'>

/**
 * Passes an answer on, piece by piece as it comes. When the client leaves it is heard on to its end, where the usage
 * stands. The end itself is left to the caller.
 */
export async function relay(
  body: Readable,
  { client, ear, watch }: { client: Client; ear: Ear; watch: Watch },
  options: Options,
  keep?: (chunk: Uint8Array) => void,
): Promise<Relayed> {
  let firstByteAt: number | null = null
  let stalledMs = 0
  const room = { answer: options.answerBytes, drain: options.drainBytes }
  try {
    for await (const chunk of body) {
      watch.heard()
      firstByteAt ??= performance.now()
      ear.hear(chunk)
      keep?.(chunk)
      room.answer -= chunk.length
      if (room.answer < 0) watch.breakOff('answer')
      if (ear.isFlood()) watch.breakOff('flood')
      if (client.isGone()) room.drain -= chunk.length
      else stalledMs = Math.max(stalledMs, await waited(client.write(chunk)))
      if (room.drain < 0) watch.breakOff('drain')
    }
  } catch {
    return { wasCut: true, firstByteAt, stalledMs }
  }
  return { wasCut: watch.signal.aborted, firstByteAt, stalledMs }
}

async function waited(writing: Promise<void> | undefined): Promise<number> {
  if (!writing) return 0
  const started = performance.now()
  await writing
  return performance.now() - started
}
