import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { OutboundFailed, OutboundRefused, type Trust } from '../platform/outbound/outbound.ts'
import { NotConnected, type OpenStream } from '../platform/outbound/stream.ts'
import { decoderFor } from './encodings.ts'
import type { Headers } from './headers.ts'
import { isAbsorbed, type RetryOptions, retryPause } from './retry.ts'
import type { Watch } from './watch.ts'

export type UpstreamRequest = {
  url: string
  trust: Trust
  method: string
  headers: Record<string, string>
  body: Uint8Array | null
}

export type UpstreamAnswer =
  | { kind: 'answered'; status: number; headers: Headers; body: Readable; tries: number }
  | { kind: 'silent'; why: Silence; detail: string; tries: number }

/** `broken`, `late`: the provider may have done the work, and may bill it. */
export type Silence = 'unreachable' | 'refused' | 'unwanted' | 'broken' | 'late'

type Tools = { openStream: OpenStream; retry: RetryOptions; onRetry: (why: string) => void }

/**
 * What passes by itself is tried again here, so that no program's own patience decides a trial. Only before anything
 * was passed on, and never where the provider may have done the work.
 */
export async function sendUpstream(
  tools: Tools,
  request: UpstreamRequest,
  watch: Watch,
  isWanted: () => boolean,
): Promise<UpstreamAnswer> {
  const started = performance.now()
  const isOver = () => watch.signal.aborted || !isWanted()
  for (let tries = 1; ; tries++) {
    const answer = await sendOnce(tools, request, watch, tries)
    const again = isOver() ? undefined : nextTry(tools.retry, answer, performance.now() - started)
    if (!again) return answer

    tools.onRetry(again.why)
    if (answer.kind === 'answered') await discard(answer.body)
    await wait(again.pauseMs, undefined, { signal: watch.signal }).catch(() => {})
    if (isOver()) return silent('unwanted', 'nobody waits for it', tries)
  }
}

function nextTry(options: RetryOptions, answer: UpstreamAnswer, elapsedMs: number) {
  const why = whyAgain(answer)
  const headers = answer.kind === 'answered' ? answer.headers : {}
  const status = answer.kind === 'answered' ? answer.status : null
  const failed = { status, tries: answer.tries, elapsedMs, headers, now: Date.now(), random: Math.random() }
  const pauseMs = why === undefined ? undefined : retryPause(options, failed)
  return why === undefined || pauseMs === undefined ? undefined : { why, pauseMs }
}

/** Undefined: it is good, or another try would not be better, or not be safe. */
function whyAgain(answer: UpstreamAnswer): string | undefined {
  if (answer.kind === 'silent') return answer.why === 'unreachable' ? answer.why : undefined
  return isAbsorbed(answer.status) ? String(answer.status) : undefined
}

async function sendOnce(
  { openStream }: Tools,
  { url, ...request }: UpstreamRequest,
  watch: Watch,
  tries: number,
): Promise<UpstreamAnswer> {
  watch.sent()
  try {
    const { status, headers, body } = await openStream(url, { ...request, signal: watch.signal })
    watch.heard()
    body.on('error', () => {}) // also when nobody reads it any more
    return { kind: 'answered', status, headers, body: decoded(headers, body), tries }
  } catch (error) {
    if (watch.signal.aborted) return silent('late', 'no answer in time', tries)
    if (error instanceof OutboundRefused) return silent('refused', error.message, tries)
    if (error instanceof OutboundFailed) return silent(isSafe(error) ? 'unreachable' : 'broken', error.message, tries)
    throw error
  }
}

const silent = (why: Silence, detail: string, tries: number): UpstreamAnswer => ({ kind: 'silent', why, detail, tries })

const isSafe = (error: OutboundFailed): boolean => error instanceof NotConnected || error.reason === 'name_not_found'

/** Some providers pack their answers although they were asked not to. */
function decoded(headers: Headers, body: Readable): Readable {
  const decoder = decoderFor(headers['content-encoding'])
  if (!decoder) return body
  body.on('error', (error) => decoder.destroy(error))
  decoder.on('close', () => body.destroy())
  decoder.on('error', () => {})
  return body.pipe(decoder)
}

const DISCARDED_BYTES_MAX = 64 * 1024

/** A short answer is heard to its end, so that its connection can be used again. */
async function discard(body: Readable): Promise<void> {
  let bytes = 0
  try {
    for await (const chunk of body) {
      bytes += chunk.length
      if (bytes > DISCARDED_BYTES_MAX) break
    }
  } catch {
    // It is not wanted anyway.
  }
}
