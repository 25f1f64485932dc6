import { setTimeout as wait } from 'node:timers/promises'
import { targetUrl } from '../credentials/target.ts'
import { newId } from '../platform/ids.ts'
import type { Asking, Prepared, ProxyTools } from './asking.ts'
import { carryOut } from './carry-out.ts'
import { sentHeaders, sentQuery } from './headers.ts'
import { judge } from './judge.ts'
import type { NewCall, Settlement } from './ledger.ts'
import { CREDENTIAL_REFUSED, grantSentence } from './problems.ts'
import { keepRecord, startRecord } from './record.ts'
import { readRequestBody } from './request-body.ts'
import { inputEstimate, reservationMicros } from './reservation.ts'
import type { UpstreamRequest } from './upstream.ts'
import type { JsonObject } from './wire.ts'

/** Reserved before it is sent, settled before its answer ends. */
export async function makeCall(tools: ProxyTools, asking: Asking): Promise<void> {
  const prepared = await prepare(tools, asking)
  if (!prepared) return

  const { call } = prepared
  const reserved = await tools.ledger.reserve(call)
  if (reserved !== 'reserved') return asking.refuse(reserved, grantSentence(reserved))

  prepared.record =
    tools.blobs && asking.grant.terms.recordBodies ? startRecord(call, prepared.sent, prepared.key) : undefined
  const { settlement, finish } = await carryOut(tools, asking, prepared)
  await settle(tools, call, { ...settlement, bodies: await keptBodies(tools, prepared, settlement) })
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

/** Undefined: it was refused, or the client has left. */
async function prepare(tools: ProxyTools, asking: Asking): Promise<Prepared | undefined> {
  const { grant, wire, operation, refuse } = asking
  const accepted = await accept(tools, asking)
  if (!accepted) return
  const { asked, bytes, helper, levelAsked } = accepted
  const { prices, outputTokens } = grant.terms
  const tokens = {
    input: inputEstimate(bytes.length, asked.media),
    output: asked.outputTokens ?? outputTokens * (asked.alternatives ?? 1),
  }
  const kind = operation.kind === 'count' ? 'count' : 'generate'
  const reservedMicros = kind === 'count' ? 0 : prices && reservationMicros(prices, tokens)
  if (reservedMicros === null && grant.budgetMicros !== null)
    return void (await refuse('price', grantSentence('price')))

  const key = await tools.openKey(grant)
  if (key === undefined) return void (await refuse('credential', CREDENTIAL_REFUSED.message))
  return {
    call: {
      id: newId(),
      grantId: grant.id,
      gatewayId: tools.gatewayId,
      kind,
      protocol: wire.protocol,
      helper,
      levelAsked,
      reservedMicros,
    },
    key,
    sent: sentRequest(tools, asking, key, bytes),
    estimate: { prices, reservedMicros, input: tokens.input, outputMax: tokens.output },
  }
}

/** The bytes as they came, unless something in them must differ. */
async function accept({ options }: ProxyTools, { grant, wire, operation, request, room, refuse }: Asking) {
  const limits = { bytesMax: options.requestBytes, take: room.take }
  const body = await readRequestBody(request.body, request.headers['content-encoding'], limits)
  if (body.kind === 'gone') return
  if (body.kind === 'refused') return void (await refuse(body.reason, body.message))
  const judged = judge(grant.terms, wire, operation, body.json)
  if (judged.kind === 'refused') return void (await refuse(judged.reason, judged.message))
  const { asked, helper, levelAsked } = judged
  return { asked, helper, levelAsked, bytes: judged.body === body.json ? body.bytes : bytesOf(judged.body) }
}

const bytesOf = (body: JsonObject): Buffer => Buffer.from(JSON.stringify(body))

function sentRequest(tools: ProxyTools, { grant, wire, request }: Asking, key: string, body: Buffer): UpstreamRequest {
  const { url, trust } = tools.findUpstream(grant.terms, wire.protocol)
  const path = wire.rewrittenPath(request.path, { model: grant.terms.model })
  return {
    url: targetUrl(url, path) + sentQuery(request.query),
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
