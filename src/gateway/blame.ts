import { buildTargetUrl } from '../credentials/target.ts'
import type { Asking, Prepared, ProxyTools } from './asking.ts'
import { crowd } from './crowd.ts'
import { failureKind } from './failure.ts'
import type { FailureKind } from './ledger.ts'
import { type Heard, listenIn } from './listen-in.ts'
import { startOf } from './start-of.ts'
import { sendUpstream } from './upstream.ts'
import { startWatch, type Watch } from './watch.ts'

/** The cause of a failure, and the answer to the gateway's own request if one was needed to find it. */
export type Blame = { failure: FailureKind; heard: Heard | null }

const ANSWER_BYTES_MAX = 256 * 1024
/** A provider that leaves the smallest request without an answer for so long is out of order. */
const PROBE_MS = 60_000
const ONCE = { triesMax: 1, totalMs: 0, firstMs: 0, pauseMaxMs: 0, quietMs: 0 }
/** Timers are not exact. */
const QUIET_SHARE = 0.9
/** Failures that excuse a trial, or stop all others, once our own request fails like that too. */
const EXCUSES: readonly FailureKind[] = ['credential', 'rate', 'upstream', 'model']

/**
 * Programs write their requests themselves, and some bodies break any provider, or make it refuse them as it would a
 * key. So the key is tried at once with a request of our own: a failure that this one does not share is the request's.
 */
export async function blame(tools: ProxyTools, asking: Asking, sent: Prepared['sent']): Promise<Blame> {
  const { headersMs, idleMs, drainMs } = tools.options
  const watch = startWatch({ headersMs: Math.min(headersMs, PROBE_MS), idleMs, drainMs, callMs: PROBE_MS })
  tools.watches.add(watch)
  try {
    return await probe(tools, asking, sent, watch)
  } finally {
    watch.clear()
    tools.watches.delete(watch)
  }
}

async function probe(tools: ProxyTools, asking: Asking, sent: Prepared['sent'], watch: Watch): Promise<Blame> {
  const { grant, wire } = asking
  const { path, body, headers } = wire.probe(grant.terms.model)
  const { url, trust } = tools.findUpstream(grant.terms, wire.protocol)
  const request = {
    url: buildTargetUrl(url, path),
    trust,
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', 'accept-encoding': 'identity', ...keyIn(asking, sent) },
    body: Buffer.from(JSON.stringify(body)),
  }
  const answer = await sendUpstream({ ...tools, retry: ONCE, onRetry: () => {} }, request, watch, () => true)
  if (answer.kind === 'silent') return { failure: 'upstream', heard: null }
  const said = await startOf(answer.body, ANSWER_BYTES_MAX)
  if (answer.status >= 200 && answer.status < 300) {
    const ear = listenIn(wire, answer.headers)
    ear.hear(said)
    const heard = await ear.read()
    const isAnswered = (heard.isComplete && heard.error === null) || heard.error === 'request'
    return { failure: isAnswered ? 'request' : 'upstream', heard }
  }
  const kind = failureKind(answer.status, said.toString())
  return { failure: EXCUSES.includes(kind) ? kind : 'request', heard: null }
}

/**
 * A 429 that did not pass. An account may be used up by others, or by the program itself, which would then be excused by
 * what it did. It is the provider's only where the program has left it alone for a while, and our own request, the
 * smallest that there is, is one too many as well.
 */
export async function blameRate(
  tools: ProxyTools,
  asking: Asking,
  { call, sent }: Prepared,
  elapsedMs: number,
): Promise<Blame> {
  const { calls = [] } = (await tools.ledger.read(asking.grant.id)) ?? {}
  const load = crowd(calls, { id: call.id, elapsedMs }, tools.options.retry.quietMs * QUIET_SHARE)
  if (load === 'flooding') return { failure: 'request', heard: null }
  if (load === 'busy') return { failure: 'crowded', heard: null }
  const blamed = await blame(tools, asking, sent)
  return blamed.failure === 'request' ? { ...blamed, failure: 'crowded' } : blamed
}

/** The key as the failed call had it: it may have been changed since. */
const keyIn = ({ wire }: Asking, { headers }: Prepared['sent']): Record<string, string> =>
  Object.fromEntries(Object.keys(wire.headers('')).flatMap((name) => (headers[name] ? [[name, headers[name]]] : [])))
