import type { Readable } from 'node:stream'
import type { Protocol } from '../harnesses/model-access.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Log } from '../platform/log.ts'
import type { Trust } from '../platform/outbound/outbound.ts'
import type { OpenStream } from '../platform/outbound/stream.ts'
import type { Client } from './client.ts'
import type { Counters } from './counters.ts'
import type { Headers } from './headers.ts'
import type { InputMemory } from './input-memory.ts'
import type { Grant, Ledger, NewCall, Refusal, Terms } from './ledger.ts'
import type { GatewayOptions } from './options.ts'
import type { ShownMetrics } from './outside.ts'
import type { CallRecord } from './record.ts'
import type { Room, Rooms } from './rooms.ts'
import type { Estimate } from './settlement.ts'
import type { UpstreamRequest } from './upstream.ts'
import type { Watch } from './watch.ts'
import type { Operation, Wire } from './wire.ts'

export type ProxyTools = {
  /** This gateway, among others on the same ledger. */
  gatewayId: string
  ledger: Ledger
  openStream: OpenStream
  /** The real key, as it is now. Undefined: there is none any more. */
  openKey: (grant: Grant) => Promise<string | undefined>
  /** Where the provider of a grant is. */
  findUpstream: (terms: Terms, protocol: Protocol) => { url: string; trust: Trust }
  /** For what was said, where a grant wants it kept. */
  blobs?: Blobs | undefined
  log: Log
  counters: Counters
  /** Shown to whoever asks outside of tunnels. */
  metrics?: ShownMetrics | undefined
  options: GatewayOptions
  rooms: Rooms
  inputs: InputMemory
  /** Of the calls under way. */
  watches: Set<Watch>
}

export type GatewayRequest = {
  method: string
  path: string
  query: URLSearchParams
  headers: Headers
  body: Readable
}

export type Asking = {
  grant: Grant
  wire: Wire
  operation: Operation
  request: GatewayRequest
  client: Client
  room: Room
  refuse: (reason: Refusal, message: string) => Promise<void>
}

/** What is sent on, and what it may cost. */
export type Prepared = {
  call: NewCall
  /** Nothing that is kept may have it. */
  key: string
  sent: UpstreamRequest
  estimate: Estimate
  /** The output limit that was written into the request. */
  outputLimit: number | null
  record?: CallRecord | undefined
}
