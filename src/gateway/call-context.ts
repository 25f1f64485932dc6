import type { Readable } from 'node:stream'
import type { Secret } from '../credentials/seal.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { OpenStream } from '../platform/outbound/open-stream.ts'
import type { Trust } from '../platform/outbound/outbound.ts'
import type { AnswerPacer } from './answer-pace.ts'
import type { CallRecord } from './call-bodies.ts'
import type { ClientResponse } from './client-response.ts'
import type { AbandonedCalls, CallSlot, GrantLimiter } from './grants.ts'
import type { HeaderValues } from './headers.ts'
import type { InputMemory } from './input-memory.ts'
import type { Grant, Ledger, NewCall, Refusal, Settlement, Terms } from './ledger.ts'
import type { GatewayOptions } from './options.ts'
import type { CostEstimate } from './settlement.ts'
import type { CallTimeouts, UpstreamRequest } from './upstream.ts'
import type { WireOperation, WireProtocol } from './wire-protocol.ts'

/** External services that a gateway needs. */
export type GatewayDeps = {
  ledger: Ledger
  openStream: OpenStream
  /** Returns the current secret of the provider, or undefined if the credential no longer exists. */
  openSecret: (grant: Grant) => Promise<Secret | undefined>
  /** Returns the address of a grant's provider, and how far it is trusted. */
  resolveUpstream: (terms: Terms, workspaceId: string) => Upstream | Promise<Upstream>
  /** Stores the bodies of calls for grants that record them. */
  blobs?: Blobs | undefined
  log: Log
  /** Returns true if this process can open the keys of providers. Default: always. */
  holdsMasterKey?: (() => boolean) | undefined
  counters: GatewayCounters
  /** Served outside of tunnels. */
  metrics?: MetricsEndpoint | undefined
}

type Upstream = { url: string; trust: Trust }

type MetricsEndpoint = Pick<Metrics, 'text' | 'contentType'> & {
  /** Metrics are shown only to the operator. */
  isOperatorKey: (key: string) => boolean
}

/** Dependencies and state of one running gateway. */
export type GatewayRuntime = GatewayDeps & {
  /** Identifies this gateway among others that share the ledger. */
  gatewayId: string
  options: GatewayOptions
  limiter: GrantLimiter
  pacer: AnswerPacer
  abandoned: AbandonedCalls
  inputMemory: InputMemory
  openTimeouts: Set<CallTimeouts>
}

export type GatewayRequest = {
  method: string
  path: string
  query: URLSearchParams
  headers: HeaderValues
  body: Readable
}

/** A request of a program, with the grant and the protocol that apply to it. */
export type CallContext = {
  grant: Grant
  wire: WireProtocol
  operation: WireOperation
  request: GatewayRequest
  client: ClientResponse
  slot: CallSlot
  refuse: (reason: Refusal, message: string) => Promise<void>
}

/** A call that is reserved and ready to be sent. */
export type PreparedCall = {
  call: NewCall
  /** Values that must not appear in anything that is stored. */
  confidential: readonly string[]
  sent: UpstreamRequest
  estimate: CostEstimate
  /** The output limit that the gateway wrote into the request. */
  outputLimit: number | null
  record?: CallRecord | undefined
}

/** Prometheus counters of one gateway. */
type GatewayCounters = {
  countSettlement(call: NewCall, settlement: Settlement): void
  countRefusal(reason: Refusal): void
  countRetry(why: string): void
}

/** Creates the Prometheus counters of a gateway. */
export function createGatewayCounters(metrics: Metrics): GatewayCounters {
  const calls = metrics.counter('assay_gateway_calls_total', 'Settled calls', ['protocol', 'outcome', 'cost_source'])
  const tokens = metrics.counter('assay_gateway_tokens_total', 'Tokens of settled calls', ['class'])
  const cost = metrics.counter('assay_gateway_cost_micros_total', 'Cost of settled calls in micro-dollars', [])
  const refusals = metrics.counter('assay_gateway_refused_total', 'Refused requests', ['reason'])
  const retries = metrics.counter('assay_gateway_retries_total', 'Retries', ['why'])
  return {
    countSettlement(call, { outcome, costSource, costMicros, usage }) {
      calls({ protocol: call.protocol, outcome, cost_source: costSource })
      cost({}, costMicros ?? 0)
      for (const [name, count] of Object.entries(usage)) if (count > 0) tokens({ class: name }, count)
    },
    countRefusal: (reason) => refusals({ reason }),
    countRetry: (why) => retries({ why }),
  }
}
