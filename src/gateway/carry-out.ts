import type { Asking, Prepared, ProxyTools } from './asking.ts'
import { type Blame, blame, blameRate } from './blame.ts'
import { failureKind } from './failure.ts'
import { passedHeaders } from './headers.ts'
import type { FailureKind, Settlement } from './ledger.ts'
import { listenIn } from './listen-in.ts'
import { CREDENTIAL_REFUSED, REQUEST_REFUSED, TIMED_OUT, UNREACHABLE } from './problems.ts'
import { relay } from './relay.ts'
import { settledAnswer, settledFree, settledProbed, settledSilent } from './settlement.ts'
import { startOf } from './start-of.ts'
import { type Silence, sendUpstream, type UpstreamAnswer } from './upstream.ts'
import { startWatch, type Watch } from './watch.ts'

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
    const blamed = isProvoked(answer.why) ? await blame(tools, asking, prepared.sent, watch) : OUTAGE
    return silence(asking, prepared, answer.why, { blamed, facts: factsOf(null) })
  }
  return answer.status >= 200 && answer.status < 300
    ? passOn(tools, asking, prepared, { answer, watch, factsOf })
    : failed(tools, asking, prepared, { answer, watch, factsOf })
}

const OUTAGE: Blame = { failure: 'upstream', heard: null }

/** A program may bring these about: by what it sends, or by leaving. */
const isProvoked = (why: Silence): boolean => why === 'broken' || why === 'refused' || why === 'unwanted'

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
    settlement: mayBeBilled ? settledSilent(facts, estimate, blamed.failure) : settledProbed(facts, blamed, estimate),
    finish: () => client.answer(status, wire.problem(status, code, message)),
  }
}

type Passing = { answer: Answered; watch: Watch; factsOf: FactsOf }

async function passOn(
  { options }: ProxyTools,
  { client, wire }: Asking,
  { estimate, call, record }: Prepared,
  { answer, watch, factsOf }: Passing,
): Promise<CarriedOut> {
  const ear = listenIn(wire, answer.headers)
  client.begin(answer.status, passedHeaders(answer.headers), ear.isStream ? 'stream' : 'whole')
  const { wasCut, firstByteAt, stalledMs } = await relay(answer.body, { client, ear, watch }, options, record?.hear)
  const facts = factsOf(firstByteAt)
  const heard = await ear.read()
  const quietMs = (heard.firstTextAt === null ? null : factsOf(heard.firstTextAt).firstByteMs) ?? facts.totalMs
  const settlement =
    call.kind === 'count'
      ? settledFree(facts, wasCut ? 'upstream' : null)
      : settledAnswer(facts, { ...heard, wasCut, isOwnCut: isOwnCut(watch, stalledMs), quietMs }, estimate)
  return { settlement, finish: wasCut ? client.cut : client.end }
}

/** Who does not read, leaves in the middle or asks for too much brings the cut about himself. */
const isOwnCut = (watch: Watch, stalledMs: number): boolean =>
  stalledMs > STALL_MS || ['drain', 'answer', 'time'].includes(watch.reason() ?? '')

const STALL_MS = 10_000
const ERROR_BYTES_MAX = 256 * 1024

/** The provider's own words, but for those that may speak of the key: it is not the program's. */
async function failed(
  tools: ProxyTools,
  asking: Asking,
  prepared: Prepared,
  { answer, watch, factsOf }: Passing,
): Promise<CarriedOut> {
  const { client, wire } = asking
  const { record, estimate } = prepared
  const body = await startOf(answer.body, ERROR_BYTES_MAX)
  record?.hear(body)
  const kind = failureKind(answer.status, body.toString())
  const blamed = await blamedFor(tools, asking, prepared, {
    kind,
    status: answer.status,
    watch,
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
  { kind, status, ...rest }: { kind: FailureKind; status: number; watch: Watch; elapsedMs: number },
): Promise<Blame> {
  if (kind === 'rate') return blameRate(tools, asking, prepared, rest)
  if (kind === 'credential' || kind === 'model' || status >= 500) return blame(tools, asking, prepared.sent, rest.watch)
  return { failure: kind, heard: null }
}

function problemOf(failure: FailureKind) {
  if (failure === 'credential') return CREDENTIAL_REFUSED
  return failure === 'request' ? REQUEST_REFUSED : UNREACHABLE
}
