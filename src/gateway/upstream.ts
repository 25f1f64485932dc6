import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { NotConnected, type OpenStream } from '../platform/outbound/open-stream.ts'
import { OutboundFailed, OutboundRefused, type Trust } from '../platform/outbound/outbound.ts'
import { createDecoder, type HeaderValues } from './headers.ts'
import type { GatewayOptions } from './options.ts'
import { computeRetryPauseMs, isRetryable, type RetryOptions } from './retry-policy.ts'

export type UpstreamRequest = {
  url: string
  trust: Trust
  method: string
  headers: Record<string, string>
  body: Uint8Array | null
  /** Sends the request instead of the gateway's own client: the transport of a cloud. */
  transport?: OpenStream | undefined
}

export type UpstreamAnswer =
  | { kind: 'answered'; status: number; headers: HeaderValues; body: Readable; tries: number }
  | { kind: 'silent'; why: NoAnswerReason; detail: string; tries: number }

/**
 * `unwanted`: the client disconnected. `refused`: the address or a header is not allowed. `late`: timeout. After `broken`
 * and `late` the provider may have processed the request, and may bill it.
 */
export type NoAnswerReason = 'unreachable' | 'refused' | 'unwanted' | 'broken' | 'late'

type UpstreamDeps = { openStream: OpenStream; retry: RetryOptions; onRetry: (why: string) => void }

/**
 * Sends a request to a provider and retries transient failures, so that the result of a trial does not
 * depend on the retry policy of the agent program. Retries only before anything was relayed, and never if the provider
 * may have processed the request.
 */
export async function sendUpstream(
  deps: UpstreamDeps,
  request: UpstreamRequest,
  timeouts: CallTimeouts,
  isWanted: () => boolean,
): Promise<UpstreamAnswer> {
  const started = performance.now()
  const isOver = () => timeouts.signal.aborted || !isWanted()
  for (let tries = 1; ; tries++) {
    const answer = await sendOnce(deps, request, timeouts, tries)
    const retry = isOver() ? undefined : planRetry(deps.retry, answer, performance.now() - started)
    if (!retry) return answer

    deps.onRetry(retry.why)
    if (answer.kind === 'answered') await discard(answer.body)
    await wait(retry.pauseMs, undefined, { signal: timeouts.signal }).catch(() => {})
    if (isOver()) return silent('unwanted', 'the client disconnected or the call was aborted', tries)
  }
}

async function sendOnce(
  { openStream }: UpstreamDeps,
  { url, transport = openStream, ...request }: UpstreamRequest,
  timeouts: CallTimeouts,
  tries: number,
): Promise<UpstreamAnswer> {
  timeouts.onSent()
  try {
    const { status, headers, body } = await transport(url, { ...request, signal: timeouts.signal })
    timeouts.onData()
    body.on('error', () => {}) // Prevents an unhandled error event after the last read.
    return { kind: 'answered', status, headers, body: decodeBody(headers, body), tries }
  } catch (error) {
    if (timeouts.signal.aborted) return silent('late', 'no answer within the time limit of a call', tries)
    if (error instanceof OutboundRefused) return silent('refused', error.message, tries)
    if (error instanceof OutboundFailed)
      return silent(isNeverSent(error) ? 'unreachable' : 'broken', error.message, tries)
    throw error
  }
}

const silent = (why: NoAnswerReason, detail: string, tries: number): UpstreamAnswer => ({
  kind: 'silent',
  why,
  detail,
  tries,
})

/** Returns true if the request cannot have reached the provider, so that a retry is safe. */
const isNeverSent = (error: OutboundFailed): boolean =>
  error instanceof NotConnected || error.reason === 'name_not_found' || error.reason === 'address_not_public'

/** Decompresses a body. Some providers compress although the request asks them not to. */
function decodeBody(headers: HeaderValues, body: Readable): Readable {
  const decoder = createDecoder(headers['content-encoding'])
  if (!decoder) return body
  body.on('error', (error) => decoder.destroy(error))
  decoder.on('close', () => body.destroy())
  decoder.on('error', () => {})
  return body.pipe(decoder)
}

function planRetry(options: RetryOptions, answer: UpstreamAnswer, elapsedMs: number) {
  const why = findRetryReason(answer)
  if (why === undefined) return undefined
  const { status, headers } = answer.kind === 'answered' ? answer : { status: null, headers: {} }
  const failed = { status, tries: answer.tries, elapsedMs, headers, now: Date.now(), random: Math.random() }
  const pauseMs = computeRetryPauseMs(options, failed)
  return pauseMs === undefined ? undefined : { why, pauseMs }
}

/** Returns undefined if the answer is good, or a retry would not help or not be safe. */
function findRetryReason(answer: UpstreamAnswer): string | undefined {
  if (answer.kind === 'silent') return answer.why === 'unreachable' ? answer.why : undefined
  return isRetryable(answer.status) ? String(answer.status) : undefined
}

const DISCARDED_BYTES_MAX = 64 * 1024

/** Reads a short response completely, so that its connection can be reused. */
async function discard(body: Readable): Promise<void> {
  await readStart(body, DISCARDED_BYTES_MAX)
}

/** Returns the first bytes of a body and closes it if it is longer. */
export async function readStart(body: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      length += chunk.length
      if (length > bytesMax) break
    }
  } catch {
    // The bytes that arrived before the error are returned.
  }
  return Buffer.concat(chunks).subarray(0, bytesMax)
}

/**
 * Reason for aborting a call. `headers`, `idle` and `time`: a timeout of `GatewayOptions`. `answer`: the answer was too
 * long. `flood`: it had too many events, or too many that are not JSON. `drain`: the client has left. `stop`: the gateway
 * is stopping.
 */
type AbortReason = 'headers' | 'idle' | 'time' | 'drain' | 'answer' | 'flood' | 'stop'

/** The timeouts of one call behind one abort signal. */
export type CallTimeouts = {
  signal: AbortSignal
  reason(): AbortReason | undefined
  abort(reason: AbortReason): void
  /** Starts the timeout for the response headers. */
  onSent(): void
  /** Restarts the idle timeout. */
  onData(): void
  onClientLeft(): void
  stop(): void
}

/** Starts the timeouts of a call. The total one runs at once; the others start with the events of `CallTimeouts`. */
export function startTimeouts(
  options: Pick<GatewayOptions, 'headersMs' | 'idleMs' | 'callMs' | 'drainMs'>,
): CallTimeouts {
  const controller = new AbortController()
  let reason: AbortReason | undefined
  const abort = (why: AbortReason) => {
    reason ??= why
    controller.abort(new Error(`The call was aborted: ${reason}.`))
  }
  const abortAfter = (why: AbortReason, ms: number) => setTimeout(() => abort(why), ms)
  const total = abortAfter('time', options.callMs)
  let silence: NodeJS.Timeout | undefined
  let drain: NodeJS.Timeout | undefined
  let isReceiving = false
  let isStopped = false
  return {
    signal: controller.signal,
    reason: () => reason,
    abort,
    onSent() {
      clearTimeout(silence)
      isReceiving = false
      silence = abortAfter('headers', options.headersMs)
    },
    onData() {
      if (isReceiving) return void silence?.refresh()
      isReceiving = true
      clearTimeout(silence)
      silence = abortAfter('idle', options.idleMs)
    },
    onClientLeft() {
      // A client also disconnects after every finished call.
      if (!isStopped) drain ??= abortAfter('drain', options.drainMs)
    },
    stop() {
      isStopped = true
      for (const timer of [total, silence, drain]) clearTimeout(timer)
    },
  }
}
