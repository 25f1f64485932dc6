import { setTimeout as wait } from 'node:timers/promises'
import { buildTargetUrl } from '../credentials/providers.ts'
import type { CallContext, GatewayRuntime, PreparedCall } from './call-context.ts'
import { classifyConcurrency, classifyFailure } from './failure-causes.ts'
import type { FailureKind, RecordedCall } from './ledger.ts'
import type { Attribution } from './settlement.ts'
import { type CallTimeouts, type NoAnswerReason, readStart, sendUpstream, startTimeouts } from './upstream.ts'
import { openUsageTap } from './usage-tap.ts'
import type { AnswerError } from './wire-protocol.ts'

// Attributes failures to the provider, the credential or the request. An agent must not be able to excuse its trial, so
// everything that a request can provoke is the request's fault unless a probe, which is the gateway's own request, fails too.

/**
 * An outage that no program can cause: the provider accepted no connection before the first request of the trial, its
 * answer is a flood of events, or the gateway itself is stopping.
 */
const OUTAGE: Attribution = { failure: 'upstream', probeAnswer: null }
/**
 * A failure that the program caused: it disconnected, did not read the answer, asked for too much, or sent an invalid
 * request.
 */
const CAUSED_BY_PROGRAM: Attribution = { failure: 'request', probeAnswer: null }
/** An outage that the program may have caused. */
const INTERRUPTED: Attribution = { failure: 'interrupted', probeAnswer: null }

type UnansweredCall = {
  why: NoAnswerReason
  timeouts: CallTimeouts
  /** The provider received an earlier try of the same call. */
  wasReached: boolean
  elapsedMs: number
}

/** Attributes a call that was never answered. */
export async function attributeSilence(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  { why, timeouts, wasReached, elapsedMs }: UnansweredCall,
): Promise<Attribution> {
  if (timeouts.reason() === 'stop') return OUTAGE
  if (wasCutByProgram(timeouts)) return CAUSED_BY_PROGRAM
  if (why !== 'unreachable') return attributeFailure(runtime, context, prepared, elapsedMs)
  // A trial whose requests never reached the provider cannot have stopped it.
  const others = await listOtherCalls(runtime, context, prepared)
  if (!wasReached && !others.some(mayHaveReached)) return OUTAGE
  return toInterruption(await attributeFailure(runtime, context, prepared, elapsedMs))
}

type CutAnswer = { error: AnswerError | null; timeouts: CallTimeouts; stalledMs: number; elapsedMs: number }

/** Attributes an answer that contains an error, lacks its end, or broke off. */
export async function attributeCut(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  { error, timeouts, stalledMs, elapsedMs }: CutAnswer,
): Promise<Attribution> {
  if (['stop', 'flood'].includes(timeouts.reason() ?? '')) return OUTAGE
  if (error === 'request' || wasCutByProgram(timeouts, stalledMs)) return CAUSED_BY_PROGRAM
  if (error === 'rate') return attributeRateLimit(runtime, context, prepared, elapsedMs)
  return attributeFailure(runtime, context, prepared, elapsedMs)
}

/** Attributes an answer with a status other than 2xx. */
export async function attributeStatus(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  { kind, elapsedMs }: { kind: FailureKind; elapsedMs: number },
): Promise<Attribution> {
  if (kind === 'rate') return attributeRateLimit(runtime, context, prepared, elapsedMs)
  if (EXCUSING_FAILURES.includes(kind)) return attributeFailure(runtime, context, prepared, elapsedMs)
  return { failure: kind, probeAnswer: null }
}

/** Longest time that a program may leave an answer unread. Providers disconnect slow readers. */
const STALL_MS = 10_000

/** Returns true if the program caused the cut: it did not read, disconnected, or asked for too much. */
const wasCutByProgram = (timeouts: CallTimeouts, stalledMs = 0): boolean =>
  stalledMs > STALL_MS || ['drain', 'answer', 'time'].includes(timeouts.reason() ?? '')

/** Maximum number of bytes that are read of the answer to a probe. */
const PROBE_BYTES_MAX = 256 * 1024
/** A provider that does not answer the smallest request within this time is out of order. */
const PROBE_MS = 60_000
/** Retry policy of a single probe. `attributeFailure` repeats probes itself. */
const NO_RETRY = { triesMax: 1, totalMs: 0, firstMs: 0, pauseMaxMs: 0, quietMs: 0 }
/** Failures that excuse a trial, or stop all others, if a probe fails in the same way. */
const EXCUSING_FAILURES: readonly FailureKind[] = ['credential', 'rate', 'upstream', 'model']

/** Failures of a probe that may pass, for example while a supervisor restarts a model server. */
const TRANSIENT_FAILURES: readonly FailureKind[] = ['upstream', 'rate']
const PROBE_PAUSE_MAX_MS = 5_000

/**
 * Attributes a failure with a probe: the gateway sends a minimal request with the same key to the same model. If the
 * probe is answered, the program's request caused the failure: some bodies break any provider, or make it respond as if
 * the key were invalid. If the probe fails too, the program may have stopped the provider, so the probe is repeated for
 * a while. An outage is proven if all probes fail while no later request of the trial reaches the provider.
 */
async function attributeFailure(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  elapsedMs: number,
): Promise<Attribution> {
  const { firstMs, quietMs } = runtime.options.retry
  const deadline = performance.now() + quietMs
  let hasClientLeft = false
  context.client.onLeaving(() => {
    hasClientLeft = true
  })
  let lastProbe = await probe(runtime, context, prepared)
  if (!TRANSIENT_FAILURES.includes(lastProbe.attribution.failure)) return lastProbe.attribution
  for (let pauseMs = firstMs; performance.now() < deadline && !lastProbe.isStopping; pauseMs *= 2) {
    const untilDeadlineMs = deadline - performance.now()
    lastProbe = await probe(runtime, context, prepared, Math.min(pauseMs, PROBE_PAUSE_MAX_MS, untilDeadlineMs))
    if (!TRANSIENT_FAILURES.includes(lastProbe.attribution.failure)) return toInterruption(lastProbe.attribution)
    if (hasClientLeft) return INTERRUPTED
  }
  if (lastProbe.isStopping) return lastProbe.attribution
  const laterCalls = await listOtherCalls(runtime, context, prepared, elapsedMs)
  return laterCalls.some(hasReached) ? INTERRUPTED : lastProbe.attribution
}

/** Returns the attribution of a call after which the provider answers again: either side may have caused the outage. */
const toInterruption = (attribution: Attribution): Attribution =>
  attribution.failure === 'request' ? { ...attribution, failure: 'interrupted' } : attribution

/** Lists the other calls of the trial. With `elapsedMs`, only those that began after this call had lasted that long. */
async function listOtherCalls(
  { ledger }: GatewayRuntime,
  { grant }: CallContext,
  { call }: PreparedCall,
  elapsedMs?: number,
): Promise<RecordedCall[]> {
  const { calls = [] } = (await ledger.read(grant.id)) ?? {}
  // Time is measured from this call, because clocks of other machines differ.
  const startedAt = calls.find(({ id }) => id === call.id)?.startedAt.getTime() ?? 0
  const since = elapsedMs === undefined ? 0 : startedAt + elapsedMs
  return calls.filter((other) => other.id !== call.id && other.startedAt.getTime() >= since)
}

/** Returns true if a settled call reached the provider. A call that did not has no status and is metered at no cost. */
const hasReached = ({ settledAt, status, costSource }: RecordedCall): boolean =>
  settledAt !== null && (status !== null || costSource !== 'metered')

const mayHaveReached = (call: RecordedCall): boolean => call.settledAt === null || hasReached(call)

/** Sends a probe after a pause. A gateway that is stopping does not wait for the pause. */
async function probe(
  runtime: GatewayRuntime,
  context: CallContext,
  { sent }: PreparedCall,
  pauseMs = 0,
): Promise<{ attribution: Attribution; isStopping: boolean }> {
  const { headersMs, idleMs, drainMs } = runtime.options
  const callMs = pauseMs + PROBE_MS
  const timeouts = startTimeouts({ headersMs: Math.min(headersMs, PROBE_MS), idleMs, drainMs, callMs })
  runtime.openTimeouts.add(timeouts)
  try {
    if (pauseMs > 0) await wait(pauseMs, undefined, { signal: timeouts.signal }).catch(() => {})
    const attribution = timeouts.signal.aborted ? OUTAGE : await sendProbe(runtime, context, sent, timeouts)
    return { attribution, isStopping: timeouts.reason() === 'stop' }
  } finally {
    timeouts.stop()
    runtime.openTimeouts.delete(timeouts)
  }
}

async function sendProbe(
  runtime: GatewayRuntime,
  { grant, wire }: CallContext,
  sent: PreparedCall['sent'],
  timeouts: CallTimeouts,
): Promise<Attribution> {
  const { path, body, headers } = wire.buildProbe(grant.terms.model)
  const { url, trust } = await runtime.resolveUpstream(grant.terms, grant.workspaceId)
  // The key is the one of the failed call: it may have been replaced since.
  const keyNames = Object.keys(wire.authHeaders(''))
  const keyHeaders = Object.entries(sent.headers).filter(([name]) => keyNames.includes(name))
  const request = {
    url: buildTargetUrl(url, path),
    trust,
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/json',
      'accept-encoding': 'identity',
      ...Object.fromEntries(keyHeaders),
    },
    body: Buffer.from(JSON.stringify(body)),
    transport: sent.transport,
  }
  const answer = await sendUpstream({ ...runtime, retry: NO_RETRY, onRetry: () => {} }, request, timeouts, () => true)
  if (answer.kind === 'silent') return OUTAGE
  const bytes = await readStart(answer.body, PROBE_BYTES_MAX)
  if (answer.status >= 200 && answer.status < 300) {
    const tap = openUsageTap(wire, answer.headers)
    tap.push(bytes)
    const probeAnswer = await tap.finish()
    const { isComplete, error } = probeAnswer
    const isAnswered = error === null ? isComplete : error === 'request'
    return { failure: isAnswered ? 'request' : 'upstream', probeAnswer }
  }
  const kind = classifyFailure(answer.status, bytes.toString())
  return { failure: EXCUSING_FAILURES.includes(kind) ? kind : 'request', probeAnswer: null }
}

/** Share of `quietMs` for which the program must have made no other call. Less than 1, because timers are not exact. */
const QUIET_SHARE = 0.9

/**
 * Attributes a rate limit that persisted. The account may be exhausted by others or by the program itself. The provider
 * is to blame only if the program had no other recent call, and a probe is rejected too.
 */
async function attributeRateLimit(
  runtime: GatewayRuntime,
  context: CallContext,
  prepared: PreparedCall,
  elapsedMs: number,
): Promise<Attribution> {
  const { calls = [] } = (await runtime.ledger.read(context.grant.id)) ?? {}
  const concurrency = classifyConcurrency(
    calls,
    { id: prepared.call.id, elapsedMs },
    runtime.options.retry.quietMs * QUIET_SHARE,
  )
  if (concurrency === 'flooding') return CAUSED_BY_PROGRAM
  if (concurrency === 'busy') return { failure: 'crowded', probeAnswer: null }
  const { attribution } = await probe(runtime, context, prepared)
  return attribution.failure === 'request' ? { ...attribution, failure: 'crowded' } : attribution
}
