import { setTimeout as wait } from 'node:timers/promises'
import { clouds, listConfidential } from '../credentials/clouds.ts'
import { buildTargetUrl } from '../credentials/providers.ts'
import type { Cloud } from '../credentials/schema.ts'
import type { Secret } from '../credentials/seal.ts'
import { newId } from '../platform/ids.ts'
import { inspectRequest, limitRequest } from './body-threads.ts'
import { startCallRecord, storeCallRecord } from './call-bodies.ts'
import type { CallContext, GatewayRuntime, PreparedCall } from './call-context.ts'
import { azure } from './clouds/azure.ts'
import { bedrock } from './clouds/bedrock.ts'
import type { CloudTransport } from './clouds/cloud-transport.ts'
import { vertex } from './clouds/vertex.ts'
import { forwardCall } from './forward-call.ts'
import { buildUpstreamHeaders, buildUpstreamQuery } from './headers.ts'
import type {
  Grant,
  NewCall,
  ReservationBounds,
  ReservationRefused,
  Reserved,
  ReserveResult,
  Settlement,
} from './ledger.ts'
import { GRANT_REFUSAL_MESSAGES } from './problems.ts'
import { readRequestBody } from './request-body.ts'
import {
  computeCoveredOutput,
  computeInputBound,
  computeInputMax,
  computeOrdinaryMicros,
  computeReservationBounds,
  estimateTokens,
  explainSharedRefusal,
  type TokenBounds,
} from './reservation.ts'
import type { UpstreamRequest } from './upstream.ts'
import { sumInputTokens } from './wire-protocol.ts'

/** Makes one call. Reserves the maximum cost before the call is sent, and settles the call before the answer ends. */
export async function makeCall(runtime: GatewayRuntime, context: CallContext): Promise<void> {
  const { grant, refuse } = context
  const accepted = await readAndInspect(runtime, context)
  if (!accepted) return
  const tokens = computeTokenBounds(context, accepted)
  const call = newCall(runtime, context, accepted, tokens)
  if (call.kind === 'generate' && call.bounds === null && grant.budgetMicros !== null)
    return refuse('price', GRANT_REFUSAL_MESSAGES.price)
  const secret = await runtime.openSecret(grant)
  if (secret === undefined)
    return refuse('credential', 'There is no credential for this call: it was deleted, or belongs to another provider.')

  const reserved = await reserve(runtime, context, call)
  if (reserved.kind === 'refused') {
    const reason = explainRefusal(grant, reserved, call, tokens)
    return refuse(reason, GRANT_REFUSAL_MESSAGES[reason])
  }

  const prepared = await prepareCall(runtime, context, accepted, { call, secret, reserved, tokens })
  const { settlement, finish } = await forwardCall(runtime, context, prepared)
  const bodies = await storeBodies(runtime, prepared, settlement)
  const exceedsWindow =
    sumInputTokens(settlement.usage) > computeInputMax(grant.terms, accepted.parsed.inputPasses ?? 1)
  await settle(runtime, call, { ...settlement, bodies }, exceedsWindow)
  if (settlement.costSource === 'metered' && call.kind === 'generate' && accepted.isText)
    runtime.inputMemory.learn(
      grant.id,
      { bytes: accepted.bytes.length, digest: accepted.digest },
      sumInputTokens(settlement.usage),
    )
  finish()
}

type InspectedRequest = NonNullable<Awaited<ReturnType<typeof readAndInspect>>>

/**
 * Reads a request and checks it against the grant. Returns undefined if it was refused or the client has left. `bytes` is
 * the body to forward, to which an output limit may still be added.
 */
async function readAndInspect({ options, inputMemory }: GatewayRuntime, context: CallContext) {
  const { grant, wire, operation, request, slot, refuse } = context
  const limits = { bytesMax: options.requestBytes, takeBytes: slot.takeBytes }
  const body = await readRequestBody(request.body, request.headers['content-encoding'], limits)
  if (body.kind === 'gone') return
  if (body.kind === 'refused') {
    await refuse(body.reason, body.message)
    return
  }
  const features = String(request.headers['anthropic-beta'] ?? '')
  const { protocol } = wire
  const inspection = await inspectRequest({ bytes: body.bytes, terms: grant.terms, protocol, operation, features })
  if (inspection.kind === 'refused') {
    await refuse(inspection.reason, inspection.message)
    return
  }
  const { parsed, hasTools, hasLongCache, helper, levelAsked, rewritten, digest } = inspection
  const bytes = rewritten === null ? body.bytes : Buffer.from(rewritten.buffer, rewritten.byteOffset, rewritten.length)
  const textTokens = inputMemory.bound(grant.id, { bytes: bytes.length, digest })
  const isText = !parsed.media || parsed.media.pictures + parsed.media.documents === 0
  return { parsed, hasTools, hasLongCache, helper, levelAsked, bytes, textTokens, digest, isText }
}

function computeTokenBounds({ grant, operation }: CallContext, accepted: InspectedRequest): TokenBounds {
  const { parsed, hasLongCache, textTokens, isText } = accepted
  const { alternatives = 1, reasoningTokens = 0, reasoningTokensAbove = 0, inputPasses = 1 } = parsed
  const answerTokens = parsed.outputTokens ?? grant.terms.outputTokens * alternatives
  return {
    input: Math.min(
      computeInputMax(grant.terms, inputPasses),
      boundInput(accepted, isText ? textTokens : countTextBytes(accepted)),
    ),
    output: answerTokens + reasoningTokensAbove * alternatives,
    reasoning: reasoningTokens * alternatives,
    alternatives,
    canLimitOutput: operation.isCompaction !== true,
    hasLongCache,
  }
}

/** Returns an upper bound of the input tokens. A number of bytes is an upper bound of the tokens of a text. */
const boundInput = ({ parsed, hasTools }: InspectedRequest, textTokens: number): number =>
  computeInputBound(textTokens + (hasTools ? TOOL_PROMPT_TOKENS : 0), parsed.media) * (parsed.inputPasses ?? 1)

const countTextBytes = ({ parsed, bytes }: InspectedRequest): number => bytes.length - (parsed.media?.pictureBytes ?? 0)

/** Upper bound of the prompt that providers add to requests with tools. */
const TOOL_PROMPT_TOKENS = 1_000

function newCall(
  { gatewayId }: GatewayRuntime,
  { grant, wire, operation }: CallContext,
  { helper, levelAsked }: InspectedRequest,
  tokens: TokenBounds,
): NewCall {
  const { prices } = grant.terms
  const kind = operation.kind === 'count' ? 'count' : 'generate'
  const bounds = kind === 'count' ? FREE_BOUNDS : prices && computeReservationBounds(prices, tokens)
  return { id: newId(), grantId: grant.id, gatewayId, kind, protocol: wire.protocol, helper, levelAsked, bounds }
}

const FREE_BOUNDS: ReservationBounds = { mostMicros: 0, usualMicros: 0, leastMicros: 0 }
const BUDGET_PAUSE_MIN_MS = 10
const BUDGET_PAUSE_MAX_MS = 500

/**
 * Reserves a call. Waits while only the reservations of other open calls exceed the budget: most of each is returned when
 * its call is settled.
 */
async function reserve(
  { ledger, options }: GatewayRuntime,
  { client }: CallContext,
  call: NewCall,
): Promise<ReserveResult> {
  const deadline = performance.now() + options.budgetWaitMs
  for (let pauseMs = BUDGET_PAUSE_MIN_MS; ; pauseMs = Math.min(2 * pauseMs, BUDGET_PAUSE_MAX_MS)) {
    const result = await ledger.reserve(call)
    const mayWait = result.kind === 'refused' && result.mayPass && !client.isGone()
    if (!mayWait || performance.now() + pauseMs > deadline) return result
    await wait(pauseMs)
  }
}

const explainRefusal = ({ terms }: Grant, refused: ReservationRefused, { bounds }: NewCall, tokens: TokenBounds) =>
  bounds && terms.prices
    ? explainSharedRefusal(refused, bounds, computeOrdinaryMicros(terms.prices, tokens))
    : refused.reason

type ReservedCall = { call: NewCall; secret: Secret; reserved: Reserved; tokens: TokenBounds }

async function prepareCall(
  runtime: GatewayRuntime,
  context: CallContext,
  accepted: InspectedRequest,
  { call, secret, reserved, tokens }: ReservedCall,
): Promise<PreparedCall> {
  const { terms } = context.grant
  const { prices, recordBodies } = terms
  const { reservedMicros, limitedBy } = reserved
  const outputLimit =
    limitedBy && prices && reservedMicros !== null ? computeCoveredOutput(prices, tokens, reservedMicros) : null
  const body = outputLimit === null ? accepted.bytes : await limitOutput(context, accepted, outputLimit)
  const sent = await buildUpstreamRequest(runtime, context, secret, body)
  const confidential = listConfidential(terms.cloud, secret)
  const windowTokens = computeInputMax(terms, accepted.parsed.inputPasses ?? 1)
  const inputSent = boundInput(accepted, accepted.bytes.length)
  return {
    call,
    confidential,
    sent,
    outputLimit,
    estimate: {
      prices,
      reservedMicros,
      limitedBy,
      input: Math.min(tokens.input, estimateTokens(accepted.bytes.length)),
      inputReserved: tokens.input,
      inputSent,
      inputMax: Math.max(windowTokens, inputSent),
      outputMax: outputLimit === null ? tokens.output : outputLimit * tokens.alternatives,
    },
    record: runtime.blobs && recordBodies ? startCallRecord(call, sent, confidential) : undefined,
  }
}

const limitOutput = async (
  { grant, wire }: CallContext,
  { bytes }: InspectedRequest,
  tokens: number,
): Promise<Buffer> => {
  const { provider, cloud } = grant.terms
  const dialect = (cloud && clouds[cloud].treatedAs) ?? provider
  return Buffer.from(await limitRequest({ bytes, protocol: wire.protocol, tokens, provider: dialect }))
}

async function buildUpstreamRequest(
  { resolveUpstream, openStream }: GatewayRuntime,
  { grant, wire, request }: CallContext,
  secret: Secret,
  body: Buffer,
): Promise<UpstreamRequest> {
  const { model, cloud } = grant.terms
  const { url, trust } = await resolveUpstream(grant.terms, grant.workspaceId)
  const path = wire.rewritePath(request.path, { model })
  return {
    url: buildTargetUrl(url, path) + buildUpstreamQuery(request.query),
    trust,
    method: request.method,
    headers: buildUpstreamHeaders(request.headers, wire, cloud ? undefined : secret.apiKey),
    body,
    transport: cloud && cloudTransports[cloud](openStream, { wire, model, secret }),
  }
}

/** Stores the recorded bodies. A failure is logged: the settlement matters more. */
async function storeBodies({ blobs, log }: GatewayRuntime, { call, record }: PreparedCall, { status }: Settlement) {
  if (!blobs || !record) return null
  return storeCallRecord(blobs, record, status).catch((error: unknown) => {
    log.error({ error, call: call.id }, 'bodies of a call could not be stored')
    return null
  })
}

const SETTLE_TRIES_MAX = 5
/** Pause before the second try to settle a call. Each further pause is four times as long. */
const SETTLE_PAUSE_MS = 100

/**
 * Settles a call, with retries while the database is unavailable. After the last one the reservation stands as the cost.
 * A call that exceeds the context window costs more than was reserved, so its grant is closed.
 */
async function settle(
  { ledger, counters, log }: GatewayRuntime,
  call: NewCall,
  settlement: Settlement,
  exceedsWindow: boolean,
): Promise<void> {
  counters.countSettlement(call, settlement)
  if (exceedsWindow)
    log.warn({ call: call.id, usage: settlement.usage }, 'usage exceeds the context window; the grant was closed')
  for (let tries = 1; ; tries++) {
    try {
      await ledger.settle(call.id, settlement)
      if (exceedsWindow) await ledger.close(call.grantId)
      return
    } catch (error) {
      log.error({ error, call: call.id, tries }, 'a call could not be settled')
      if (tries === SETTLE_TRIES_MAX) return
      await wait(SETTLE_PAUSE_MS * 4 ** (tries - 1))
    }
  }
}

/** All clouds that the gateway supports. A new one is a file and a line here. */
const cloudTransports: Record<Cloud, CloudTransport> = { azure, bedrock, vertex }
