import type { Readable } from 'node:stream'
import { attributeCut, attributeSilence, attributeStatus } from './attribution.ts'
import type { CallContext, GatewayRuntime, PreparedCall } from './call-context.ts'
import type { ClientResponse } from './client-response.ts'
import { classifyFailure } from './failure-causes.ts'
import { filterResponseHeaders } from './headers.ts'
import type { FailureKind, Settlement } from './ledger.ts'
import type { GatewayOptions } from './options.ts'
import { CREDENTIAL_REFUSED, REQUEST_REFUSED, TIMED_OUT, UNREACHABLE } from './problems.ts'
import { readProviderMessage, toStorableMessage } from './provider-message.ts'
import {
  type Attribution,
  type CallFacts,
  settleAnswer,
  settleAtReservation,
  settleFree,
  settleProbed,
  settleSilent,
} from './settlement.ts'
import {
  type CallTimeouts,
  type NoAnswerReason,
  readStart,
  sendUpstream,
  startTimeouts,
  type UpstreamAnswer,
} from './upstream.ts'
import { openUsageTap, type TappedAnswer, type UsageTap } from './usage-tap.ts'

/** `finish` ends the client's response. It is called after the settlement has been stored. */
type ForwardResult = { settlement: Settlement; finish: () => void }

/** Sends a call to the provider and relays the answer. */
export async function forwardCall(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
): Promise<ForwardResult> {
  const timeouts = startTimeouts(runtime.options)
  runtime.openTimeouts.add(timeouts)
  context.client.onLeaving(timeouts.onClientLeft)
  try {
    const result = await sendAndRelay(runtime, context, prepared, timeouts)
    const isAbandoned = timeouts.reason() === 'drain' && prepared.call.kind === 'generate'
    if (!isAbandoned || !runtime.abandoned.add(context.grant.id)) return result
    return { ...result, settlement: settleAtReservation(result.settlement, prepared.estimate) }
  } finally {
    timeouts.stop()
    runtime.openTimeouts.delete(timeouts)
  }
}

type UpstreamResponse = Extract<UpstreamAnswer, { kind: 'answered' }>

async function sendAndRelay(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  timeouts: CallTimeouts,
): Promise<ForwardResult> {
  const { client } = context
  const started = performance.now()
  let wasReached = false
  const onRetry = (why: string): void => {
    runtime.counters.countRetry(why)
    wasReached ||= why !== 'unreachable'
  }
  const upstream = { ...runtime, retry: runtime.options.retry, onRetry }
  const answer = await sendUpstream(upstream, prepared.sent, timeouts, () => !client.isGone())
  prepared.sent.body = null // Frees the memory: a stream may last for an hour.
  const toElapsedMs = (at: number): number => Math.round(at - started)
  const collectFacts = (firstByteAt: number | null): CallFacts => ({
    status: answer.kind === 'answered' ? answer.status : null,
    tries: answer.tries,
    // A program that closes only its half of the connection leaves too, unless the answer ends soon.
    clientLeft: client.isGone() || timeouts.reason() === 'drain',
    firstByteMs: firstByteAt === null ? null : toElapsedMs(firstByteAt),
    totalMs: toElapsedMs(performance.now()),
    bodies: null,
    outputLimit: prepared.outputLimit,
  })
  if (answer.kind === 'silent') {
    const { why, detail } = answer
    runtime.log.warn({ call: prepared.call.id, why, detail }, 'provider did not answer')
    const message = why === 'unwanted' ? null : toStorableMessage(detail, prepared.confidential)
    // Collected before the attribution, whose time must not count: silence is settled as hidden reasoning.
    const facts = { ...collectFacts(null), message }
    const silence = { why, timeouts, wasReached, elapsedMs: facts.totalMs }
    const attribution = await attributeSilence(runtime, context, prepared, silence)
    return settleWithoutAnswer(context, prepared, why, { attribution, facts })
  }
  return answer.status >= 200 && answer.status < 300
    ? relayAnswer(runtime, context, prepared, { answer, timeouts, toElapsedMs, collectFacts })
    : relayFailure(runtime, context, prepared, { answer, collectFacts })
}

function settleWithoutAnswer(
  { client, wire }: CallContext,
  { estimate, call }: PreparedCall,
  why: NoAnswerReason,
  { attribution, facts }: { attribution: Attribution; facts: CallFacts },
): ForwardResult {
  const mayBeBilled = (why === 'broken' || why === 'late') && call.kind === 'generate'
  const { status, code, message } = why === 'late' ? TIMED_OUT : UNREACHABLE
  return {
    settlement: mayBeBilled ? settleSilent(facts, estimate, attribution) : settleProbed(facts, attribution, estimate),
    finish: () => client.answer(status, wire.formatError(status, code, message)),
  }
}

type RelayedResponse = {
  answer: UpstreamResponse
  timeouts: CallTimeouts
  /** Returns the time from the start of the call to a time of `performance.now()`. */
  toElapsedMs: (at: number) => number
  /** Returns the facts about the call as they are now. */
  collectFacts: (firstByteAt: number | null) => CallFacts
}

async function relayAnswer(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  { answer, timeouts, toElapsedMs, collectFacts }: RelayedResponse,
): Promise<ForwardResult> {
  const { client, wire } = context
  const { estimate, call, record } = prepared
  const tap = openUsageTap(wire, answer.headers, runtime.options.answerEvents)
  client.begin(answer.status, filterResponseHeaders(answer.headers), tap.isStream ? 'stream' : 'whole')
  const pace = (chunk: Uint8Array) => runtime.pacer.pace(context.grant.workspaceId, chunk, timeouts.signal)
  const relayed = await relayBody(answer.body, { client, tap, timeouts, pace }, runtime.options, record?.push)
  const { wasCut, stalledMs } = relayed
  const facts = collectFacts(relayed.firstByteAt)
  const tapped = await tap.finish()
  const finish = wasCut ? client.cut : client.end
  if (call.kind === 'count') return { settlement: settleFree(facts, wasCut ? 'upstream' : null), finish }

  const textDelayMs = tapped.firstTextAt === null ? facts.totalMs : toElapsedMs(tapped.firstTextAt)
  const isWhole = tapped.isComplete && tapped.error === null && !wasCut
  const cut = { error: tapped.error, timeouts, stalledMs, elapsedMs: facts.totalMs }
  const attribution = isWhole ? null : await attributeCut(runtime, context, prepared, cut)
  const settlement = settleAnswer(facts, { ...tapped, attribution, textDelayMs }, estimate)
  warnAboutCappedUsage(runtime, prepared, tapped, settlement)
  return { settlement, finish }
}

/** Logs a provider that reports more usage than the request allowed. */
function warnAboutCappedUsage(
  { log }: GatewayRuntime,
  { call }: PreparedCall,
  { usage }: TappedAnswer,
  settlement: Settlement,
): void {
  if (usage && settlement.outcome === 'succeeded' && settlement.costSource === 'estimated')
    log.warn({ call: call.id, claimed: usage }, 'usage exceeds what the request allowed; the cost was capped')
}

/** `stalledMs`: the longest time that the client left the answer unread. */
type RelayResult = { wasCut: boolean; firstByteAt: number | null; stalledMs: number }

type RelayContext = {
  client: ClientResponse
  tap: UsageTap
  timeouts: CallTimeouts
  /** Waits until this chunk may be read. */
  pace: (chunk: Uint8Array) => Promise<void> | undefined
}

/**
 * Relays a response body chunk by chunk. If the client leaves, the rest of the body is read too, because the usage comes
 * at the end. The caller ends the client's response.
 */
async function relayBody(
  body: Readable,
  { client, tap, timeouts, pace }: RelayContext,
  options: Pick<GatewayOptions, 'drainBytes' | 'answerBytes'>,
  onChunk?: (chunk: Uint8Array) => void,
): Promise<RelayResult> {
  let firstByteAt: number | null = null
  let stalledMs = 0
  let answerBytesLeft = options.answerBytes
  let drainBytesLeft = options.drainBytes
  try {
    for await (const chunk of readPaced(body, { timeouts, pace })) {
      firstByteAt ??= performance.now()
      tap.push(chunk)
      onChunk?.(chunk)
      answerBytesLeft -= chunk.length
      if (answerBytesLeft < 0) timeouts.abort('answer')
      if (tap.isFlood()) timeouts.abort('flood')
      if (client.isGone()) drainBytesLeft -= chunk.length
      else stalledMs = Math.max(stalledMs, await measureWaitMs(client.write(chunk)))
      if (drainBytesLeft < 0) timeouts.abort('drain')
    }
  } catch {
    return { wasCut: true, firstByteAt, stalledMs }
  }
  return { wasCut: timeouts.signal.aborted, firstByteAt, stalledMs }
}

/** Yields the chunks of a body, each when the workspace may read it. */
async function* readPaced(body: Readable, { timeouts, pace }: Pick<RelayContext, 'timeouts' | 'pace'>) {
  for await (const chunk of body) {
    timeouts.onData()
    await pace(chunk)
    if (timeouts.signal.aborted) return
    yield chunk as Uint8Array
  }
}

async function measureWaitMs(writing: Promise<void> | undefined): Promise<number> {
  if (!writing) return 0
  const started = performance.now()
  await writing
  return performance.now() - started
}

/** Maximum number of bytes that are read and relayed of an error response. */
const ERROR_BYTES_MAX = 256 * 1024

/** Relays an error response. Errors about the key are replaced, because they may quote it. */
async function relayFailure(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  { answer, collectFacts }: Pick<RelayedResponse, 'answer' | 'collectFacts'>,
): Promise<ForwardResult> {
  const { client, wire } = context
  const { record, estimate } = prepared
  const body = await readStart(answer.body, ERROR_BYTES_MAX)
  record?.push(body)
  const kind = classifyFailure(answer.status, body.toString())
  const elapsedMs = collectFacts(null).totalMs
  const attribution = await attributeStatus(runtime, context, prepared, { kind, elapsedMs })
  const message = readProviderMessage(body.toString(), prepared.confidential)
  runtime.log.info(
    { call: prepared.call.id, status: answer.status, failure: attribution.failure, message },
    'call failed',
  )
  const isRelayed = kind !== 'credential' && answer.status >= 400
  const problem = toProblem(attribution.failure)
  const finish = () => {
    if (!isRelayed)
      return client.answer(problem.status, wire.formatError(problem.status, problem.code, problem.message))
    client.begin(answer.status, filterResponseHeaders(answer.headers), 'whole')
    void client.write(body)
    client.end()
  }
  return { settlement: settleProbed({ ...collectFacts(null), message }, attribution, estimate), finish }
}

function toProblem(failure: FailureKind) {
  if (failure === 'credential') return CREDENTIAL_REFUSED
  return failure === 'request' ? REQUEST_REFUSED : UNREACHABLE
}
