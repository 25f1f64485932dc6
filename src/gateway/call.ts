import { setTimeout as wait } from 'node:timers/promises'
import { buildTargetUrl } from '../credentials/target.ts'
import { newId } from '../platform/ids.ts'
import type { Asking, Prepared, ProxyTools } from './asking.ts'
import { inspect, limit } from './body-threads.ts'
import { carryOut } from './carry-out.ts'
import { sentHeaders, sentQuery } from './headers.ts'
import type {
  Grant,
  NewCall,
  ReservationBounds,
  ReservationRefused,
  Reserved,
  ReserveResult,
  Settlement,
} from './ledger.ts'
import { CREDENTIAL_REFUSED, grantSentence } from './problems.ts'
import { keepRecord, startRecord } from './record.ts'
import { readRequestBody } from './request-body.ts'
import {
  coveredOutput,
  estimatedTokens,
  inputBound,
  inputMax,
  ordinaryMicros,
  reservationBounds,
  sharedRefusal,
  type TokenBounds,
} from './reservation.ts'
import type { UpstreamRequest } from './upstream.ts'
import type { Usage } from './wire.ts'

/** Makes one call: reserved before it is sent, settled before its answer ends. */
export async function makeCall(tools: ProxyTools, asking: Asking): Promise<void> {
  const accepted = await accept(tools, asking)
  if (!accepted) return
  const tokens = tokenBounds(asking, accepted)
  const call = newCall(tools, asking, accepted, tokens)
  if (call.kind === 'generate' && call.bounds === null && asking.grant.budgetMicros !== null)
    return asking.refuse('price', grantSentence('price'))
  const key = await tools.openKey(asking.grant)
  if (key === undefined) return asking.refuse('credential', CREDENTIAL_REFUSED.message)

  const reserved = await reserve(tools, asking, call)
  if (reserved.kind === 'refused') {
    const reason = refusalReason(asking.grant, reserved, call, tokens)
    return asking.refuse(reason, grantSentence(reason))
  }

  const prepared = await prepare(tools, asking, accepted, { call, key, reserved, tokens })
  const { settlement, finish } = await carryOut(tools, asking, prepared)
  await settle(tools, call, { ...settlement, bodies: await keptBodies(tools, prepared, settlement) })
  if (settlement.costSource === 'metered' && call.kind === 'generate' && accepted.isText)
    tools.inputs.learn(asking.grant.id, accepted.digest, inputTokensOf(settlement.usage))
  finish()
}

/** What was said is worth less than what it cost: without room for it the call is settled all the same. */
async function keptBodies({ blobs, log }: ProxyTools, { call, record }: Prepared, { status }: Settlement) {
  if (!blobs || !record) return null
  return keepRecord(blobs, record, status).catch((error: unknown) => {
    log.error({ error, call: call.id }, 'what was said in a call could not be kept')
    return null
  })
}

type Accepted = NonNullable<Awaited<ReturnType<typeof accept>>>

/** Undefined: it was refused, or the client has left. The bytes are those that came, unless something must differ. */
async function accept({ options, inputs }: ProxyTools, { grant, wire, operation, request, room, refuse }: Asking) {
  const limits = { bytesMax: options.requestBytes, take: room.take }
  const body = await readRequestBody(request.body, request.headers['content-encoding'], limits)
  if (body.kind === 'gone') return
  if (body.kind === 'refused') return void (await refuse(body.reason, body.message))
  const judged = await inspect({ bytes: body.bytes, terms: grant.terms, protocol: wire.protocol, operation })
  if (judged.kind === 'refused') return void (await refuse(judged.reason, judged.message))
  const { asked, helper, levelAsked, rewritten } = judged
  const bytes = rewritten === null ? body.bytes : Buffer.from(rewritten.buffer, rewritten.byteOffset, rewritten.length)
  const { tokens: textTokens, digest } = inputs.bound(grant.id, bytes)
  const isText = !asked.media || asked.media.pictures + asked.media.documents === 0
  return { asked, helper, levelAsked, bytes, textTokens, digest, isText }
}

const refusalReason = ({ terms }: Grant, refused: ReservationRefused, { bounds }: NewCall, tokens: TokenBounds) =>
  bounds && terms.prices ? sharedRefusal(refused, bounds, ordinaryMicros(terms.prices, tokens)) : refused.reason

function tokenBounds({ grant, operation }: Asking, accepted: Accepted): TokenBounds {
  const { asked, bytes, textTokens, isText } = accepted
  const { alternatives = 1, reasoningTokens = 0, inputPasses = 1 } = asked
  return {
    input: inputBound(
      (isText ? textTokens : bytes.length) + (bytes.includes('"tools"') ? TOOL_PROMPT_TOKENS : 0),
      asked.media,
      inputMax(grant.terms.contextTokens, inputPasses),
    ),
    output: asked.outputTokens ?? grant.terms.outputTokens * alternatives,
    reasoning: reasoningTokens * alternatives,
    alternatives,
    canLimitOutput: operation.isCompaction !== true,
    hasLongCache: LONG_CACHE.some((text) => bytes.includes(text)),
  }
}

/** Providers add a prompt of their own to requests with tools. */
const TOOL_PROMPT_TOKENS = 1_000

/** A lifetime of one hour, also where its characters are escaped. */
const LONG_CACHE = ['"1h"', '\\u0031', '\\u0068']

function newCall(tools: ProxyTools, { grant, wire, operation }: Asking, accepted: Accepted, tokens: TokenBounds) {
  const { helper, levelAsked } = accepted
  const { prices } = grant.terms
  const kind = operation.kind === 'count' ? 'count' : 'generate'
  const bounds = kind === 'count' ? FREE : prices && reservationBounds(prices, tokens)
  return {
    ...{ id: newId(), grantId: grant.id, gatewayId: tools.gatewayId, kind, protocol: wire.protocol },
    ...{ helper, levelAsked, bounds },
  } satisfies NewCall
}

const FREE: ReservationBounds = { mostMicros: 0, usualMicros: 0, leastMicros: 0 }
const BUDGET_POLL_MS = 500

/** Waits while only the reservations of other open calls are in the way: most of each returns when it is settled. */
async function reserve({ ledger, options }: ProxyTools, { client }: Asking, call: NewCall): Promise<ReserveResult> {
  const deadline = performance.now() + options.budgetWaitMs
  for (let pause = 10; ; pause = Math.min(2 * pause, BUDGET_POLL_MS)) {
    const result = await ledger.reserve(call)
    const mayWait = result.kind === 'refused' && result.mayPass && !client.isGone()
    if (!mayWait || performance.now() + pause > deadline) return result
    await wait(pause)
  }
}

type Reservation = { call: NewCall; key: string; reserved: Reserved; tokens: TokenBounds }

async function prepare(
  tools: ProxyTools,
  asking: Asking,
  accepted: Accepted,
  reservation: Reservation,
): Promise<Prepared> {
  const { call, key, reserved, tokens } = reservation
  const { prices } = asking.grant.terms
  const outputLimit =
    reserved.limitedBy && prices && reserved.reservedMicros !== null
      ? coveredOutput(prices, tokens, reserved.reservedMicros)
      : null
  const sent = sentRequest(
    tools,
    asking,
    key,
    outputLimit === null ? accepted.bytes : await limited(asking, accepted, outputLimit),
  )
  return {
    ...{ call, key, sent, outputLimit },
    estimate: {
      ...{ prices, reservedMicros: reserved.reservedMicros, limitedBy: reserved.limitedBy },
      input: Math.min(tokens.input, estimatedTokens(accepted.bytes.length)),
      inputMax: inputMax(asking.grant.terms.contextTokens, accepted.asked.inputPasses ?? 1),
      outputMax: outputLimit === null ? tokens.output : outputLimit * tokens.alternatives,
    },
    record: tools.blobs && asking.grant.terms.recordBodies ? startRecord(call, sent, key) : undefined,
  }
}

const limited = async ({ grant, wire }: Asking, { bytes }: Accepted, tokens: number): Promise<Buffer> =>
  Buffer.from(await limit({ bytes, protocol: wire.protocol, tokens, provider: grant.terms.provider }))

const inputTokensOf = ({ input, cacheRead, cacheWrite5m, cacheWrite1h }: Usage): number =>
  input + cacheRead + cacheWrite5m + cacheWrite1h

function sentRequest(tools: ProxyTools, { grant, wire, request }: Asking, key: string, body: Buffer): UpstreamRequest {
  const { url, trust } = tools.findUpstream(grant.terms, wire.protocol)
  const path = wire.rewrittenPath(request.path, { model: grant.terms.model })
  return {
    url: buildTargetUrl(url, path) + sentQuery(request.query),
    trust,
    method: request.method,
    headers: sentHeaders(request.headers, wire.headers(key)),
    body,
  }
}

const SETTLE_TRIES = 5

/** A database that is away for a moment is waited for. After that the call stays at its reservation. */
async function settle({ ledger, counters, log }: ProxyTools, call: NewCall, settlement: Settlement): Promise<void> {
  counters.settled(call, settlement)
  for (let tries = 1; ; tries++) {
    try {
      return await ledger.settle(call.id, settlement)
    } catch (error) {
      log.error({ error, call: call.id, tries }, 'a call could not be settled')
      if (tries === SETTLE_TRIES) return
      await wait(100 * 4 ** (tries - 1))
    }
  }
}
