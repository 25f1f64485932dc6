import type { Asking, Prepared, ProxyTools } from './asking.ts'
import { type Blame, blame, blameRate } from './blame.ts'
import { failureKind } from './failure.ts'
import { passedHeaders } from './headers.ts'
import type { FailureKind, Settlement } from './ledger.ts'
import { type Heard, listenIn } from './listen-in.ts'
import { CREDENTIAL_REFUSED, REQUEST_REFUSED, TIMED_OUT, UNREACHABLE } from './problems.ts'
import { relay } from './relay.ts'
import { settledAnswer, settledFree, settledProbed, settledSilent } from './settlement.ts'
import { startOf } from './start-of.ts'
import { type Silence, sendUpstream, type UpstreamAnswer } from './upstream.ts'
import { startWatch, type Watch } from './watch.ts'
import type { AnswerError } from './wire.ts'

/** `finish` is called once the settlement is written down: the client then hears the end. */
type CarriedOut = { settlement: Settlement; finish: () => void }

/** Sends a call on and passes its answer back. */
export async function carryOut(tools: ProxyTools, asking: Asking, prepared: Prepared): Promise<CarriedOut> {
  const watch = startWatch(tools.options)
  tools.watches.add(watch)
  asking.client.onLeaving(watch.clientLeft)
  try {
    return await exchange(tools, asking, prepared, watch)
  } finally {
    watch.clear()
    tools.watches.delete(watch)
  }
}

type Answered = Extract<UpstreamAnswer, { kind: 'answered' }>

async function exchange(tools: ProxyTools, asking: Asking, prepared: Prepared, watch: Watch): Promise<CarriedOut> {
  const { client } = asking
  const started = performance.now()
  const sending = { ...tools, retry: tools.options.retry, onRetry: tools.counters.retried }
  const answer = await sendUpstream(sending, prepared.sent, watch, () => !client.isGone())
  prepared.sent.body = null // a stream may last for an hour
  const factsOf = (firstByteAt: number | null) => ({
    status: answer.kind === 'answered' ? answer.status : null,
    tries: answer.tries,
    clientLeft: client.isGone(),
    firstByteMs: firstByteAt === null ? null : Math.round(firstByteAt - started),
    totalMs: Math.round(performance.now() - started),
    bodies: null,
    outputLimit: prepared.outputLimit,
  })
  if (answer.kind === 'silent') {
    tools.log.warn({ call: prepared.call.id, why: answer.why, detail: answer.detail }, 'a provider did not answer')
    const isOutage = answer.why === 'unreachable' || watch.reason() === 'stop'
    const blamed = isOutage ? OUTAGE : isOwnCut(watch) ? OWN : await blame(tools, asking, prepared.sent)
    return silence(asking, prepared, answer.why, { blamed, facts: factsOf(null) })
  }
  return answer.status >= 200 && answer.status < 300
    ? passOn(tools, asking, prepared, { answer, watch, factsOf })
    : failed(tools, asking, prepared, { answer, factsOf })
}

/**
 * No program can cause this: the provider's address accepts no connection, its answer is a flood of events, or the
 * gateway itself is stopping.
 */
const OUTAGE: Blame = { failure: 'upstream', heard: null }
/** The program left, did not read, or asked for too much. */
const OWN: Blame = { failure: 'request', heard: null }

type Facts = Parameters<typeof settledFree>[0]
type FactsOf = (firstByteAt: number | null) => Facts

function silence(
  { client, wire }: Asking,
  { estimate, call }: Prepared,
  why: Silence,
  { blamed, facts }: { blamed: Blame; facts: Facts },
): CarriedOut {
  const mayBeBilled = (why === 'broken' || why === 'late') && call.kind === 'generate'
  const { status, code, message } = why === 'late' ? TIMED_OUT : UNREACHABLE
  return {
    settlement: mayBeBilled ? settledSilent(facts, estimate, blamed) : settledProbed(facts, blamed, estimate),
    finish: () => client.answer(status, wire.problem(status, code, message)),
  }
}

type Passing = { answer: Answered; watch: Watch; factsOf: FactsOf }

async function passOn(
  tools: ProxyTools,
  asking: Asking,
  prepared: Prepared,
  { answer, watch, factsOf }: Passing,
): Promise<CarriedOut> {
  const { client, wire } = asking
  const { estimate, call, record } = prepared
  const ear = listenIn(wire, answer.headers, tools.options.answerEvents)
  client.begin(answer.status, passedHeaders(answer.headers), ear.isStream ? 'stream' : 'whole')
  const { wasCut, firstByteAt, stalledMs } = await relay(
    answer.body,
    { client, ear, watch },
    tools.options,
    record?.hear,
  )
  const facts = factsOf(firstByteAt)
  const heard = await ear.read()
  const quietMs = (heard.firstTextAt === null ? null : factsOf(heard.firstTextAt).firstByteMs) ?? facts.totalMs
  const finish = wasCut ? client.cut : client.end
  if (call.kind === 'count') return { settlement: settledFree(facts, wasCut ? 'upstream' : null), finish }
  const isWhole = heard.isComplete && heard.error === null && !wasCut
  const cut = { error: heard.error, isOwn: isOwnCut(watch, stalledMs), watch, elapsedMs: facts.totalMs }
  const blamed = isWhole ? null : await blamedForCut(tools, asking, prepared, cut)
  const settlement = settledAnswer(facts, { ...heard, blamed, quietMs }, estimate)
  warnOfDisbelief(tools, prepared, heard, settlement)
  return { settlement, finish }
}

function warnOfDisbelief({ log }: ProxyTools, { call }: Prepared, { usage }: Heard, settlement: Settlement): void {
  if (usage && settlement.outcome === 'succeeded' && settlement.costSource === 'estimated')
    log.warn({ call: call.id, claimed: usage }, 'usage that the request did not allow was not believed')
}

/** The program causes a cut by not reading, by leaving in the middle, or by asking for too much. */
const isOwnCut = (watch: Watch, stalledMs = 0): boolean =>
  stalledMs > STALL_MS || ['drain', 'answer', 'time'].includes(watch.reason() ?? '')

type Cut = { error: AnswerError | null; isOwn: boolean; watch: Watch; elapsedMs: number }

/**
 * Attributes an answer that is not whole. A program can provoke errors and broken streams, so only an outage that the
 * gateway's own request proves excuses it.
 */
async function blamedForCut(tools: ProxyTools, asking: Asking, prepared: Prepared, cut: Cut): Promise<Blame> {
  if (['stop', 'flood'].includes(cut.watch.reason() ?? '')) return OUTAGE
  if (cut.isOwn || cut.error === 'request') return OWN
  if (cut.error === 'rate') return blameRate(tools, asking, prepared, cut.elapsedMs)
  return blame(tools, asking, prepared.sent)
}

const STALL_MS = 10_000
const ERROR_BYTES_MAX = 256 * 1024

/** The provider's own words, but for those that may speak of the key: it is not the program's. */
async function failed(
  tools: ProxyTools,
  asking: Asking,
  prepared: Prepared,
  { answer, factsOf }: Omit<Passing, 'watch'>,
): Promise<CarriedOut> {
  const { client, wire } = asking
  const { record, estimate } = prepared
  const body = await startOf(answer.body, ERROR_BYTES_MAX)
  record?.hear(body)
  const kind = failureKind(answer.status, body.toString())
  const blamed = await blamedFor(tools, asking, prepared, {
    kind,
    elapsedMs: factsOf(null).totalMs,
  })
  const isPassed = kind !== 'credential' && answer.status >= 400
  const { status, code, message } = problemOf(blamed.failure)
  const finish = () => {
    if (!isPassed) return client.answer(status, wire.problem(status, code, message))
    client.begin(answer.status, passedHeaders(answer.headers), 'whole')
    void client.write(body)
    client.end()
  }
  return { settlement: settledProbed(factsOf(null), blamed, estimate), finish }
}

async function blamedFor(
  tools: ProxyTools,
  asking: Asking,
  prepared: Prepared,
  { kind, elapsedMs }: { kind: FailureKind; elapsedMs: number },
): Promise<Blame> {
  if (kind === 'rate') return blameRate(tools, asking, prepared, elapsedMs)
  if (kind === 'credential' || kind === 'model' || kind === 'upstream') return blame(tools, asking, prepared.sent)
  return { failure: kind, heard: null }
}

function problemOf(failure: FailureKind) {
  if (failure === 'credential') return CREDENTIAL_REFUSED
  return failure === 'request' ? REQUEST_REFUSED : UNREACHABLE
}
