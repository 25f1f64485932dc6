import { RESUME_MS } from '../sandboxes/resumable-protocol.ts'
import type { RetryOptions } from './retry-policy.ts'

export type GatewayOptions = {
  retry: RetryOptions
  /** Maximum time until the provider sends response headers. */
  headersMs: number
  /** Maximum time between two chunks of an answer, and maximum time that a client may read nothing of it. */
  idleMs: number
  /** Maximum duration of one call. */
  callMs: number
  /** Maximum time for which the rest of an answer is read, for its usage, after the client has left. */
  drainMs: number
  /** Maximum size of the rest of an answer that is read after the client has left. */
  drainBytes: number
  /** Maximum number of server-sent events in one answer. */
  answerEvents: number
  /** Maximum decompressed size of one answer. */
  answerBytes: number
  /** Bytes of answers that are read for one workspace in a second, once the burst is used up. */
  answerBytesPerSecond: number
  /** Bytes of answers of one workspace that are read without a pause. */
  answerBurstBytes: number
  /** Maximum decompressed size of one request. */
  requestBytes: number
  /** Maximum number of concurrent calls of a grant. */
  callsAtOnce: number
  /** Maximum decompressed size of all concurrent requests of a grant. */
  requestBytesAtOnce: number
  /** Maximum number of connections of a grant. */
  tunnelsAtOnce: number
  /** Maximum time that a resumable connection waits for another worker. */
  resumeMs: number
  /** Maximum time for a client to send its request. */
  requestMs: number
  /** Maximum time that a call waits for an exhausted budget, to which other calls may return reservations. */
  budgetWaitMs: number
}

const MINUTE_MS = 60_000
const MIB = 1024 * 1024

export const DEFAULT_OPTIONS: GatewayOptions = {
  retry: { triesMax: 6, totalMs: 2 * MINUTE_MS, firstMs: 500, pauseMaxMs: MINUTE_MS, quietMs: MINUTE_MS },
  headersMs: 10 * MINUTE_MS,
  idleMs: 10 * MINUTE_MS,
  callMs: 60 * MINUTE_MS,
  drainMs: 5_000,
  drainBytes: 64 * MIB,
  answerEvents: 1_000_000,
  answerBytes: 256 * MIB,
  answerBytesPerSecond: 4 * MIB,
  answerBurstBytes: 8 * MIB,
  requestBytes: 32 * MIB,
  callsAtOnce: 64,
  requestBytesAtOnce: 96 * MIB,
  tunnelsAtOnce: 256,
  resumeMs: RESUME_MS,
  requestMs: 2 * MINUTE_MS,
  budgetWaitMs: 2 * MINUTE_MS,
}
