import type { Readable } from 'node:stream'
import type { Secret } from '../credentials/seal.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Trust } from '../platform/outbound/outbound.ts'
import type { OpenStream } from '../platform/outbound/stream.ts'
import type { CallRecord } from './call-bodies.ts'
import type { CallTimeouts } from './call-timeouts.ts'
import type { ClientResponse } from './client-response.ts'
import type { Counters } from './counters.ts'
import type { CallSlot, GrantLimiter } from './grant-limiter.ts'
import type { HeaderValues } from './headers.ts'
import type { InputMemory } from './input-memory.ts'
import type { Grant, Ledger, NewCall, Refusal, Terms } from './ledger.ts'
import type { GatewayOptions } from './options.ts'
import type { CostEstimate } from './settlement.ts'
import type { UpstreamRequest } from './upstream.ts'
import type { WireOperation, WireProtocol } from './wire-protocol.ts'

/** External services that a gateway needs. */
export type GatewayDeps = {
  ledger: Ledger
  openStream: OpenStream
  /** Returns the current secret of the provider, or undefined if the credential no longer exists. */
  openSecret: (grant: Grant) => Promise<Secret | undefined>
  /** Returns the address of a grant's provider, and how far it is trusted. */
  findUpstream: (terms: Terms, protocol: Protocol, workspaceId: string) => Upstream | Promise<Upstream>
  /** Stores the bodies of calls for grants that record them. */
  blobs?: Blobs | undefined
  log: Log
  /** Tells whether this process can open the keys of providers. Default: always. */
  isFit?: (() => boolean) | undefined
  counters: Counters
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
  inputMemory: InputMemory
  /** Timeouts of all open calls. */
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
