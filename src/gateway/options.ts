import type { RetryOptions } from './retry.ts'

export type GatewayOptions = {
  retry: RetryOptions
  /** Until the provider begins to answer. */
  headersMs: number
  /** Between two pieces of an answer, and for a client that reads nothing. */
  idleMs: number
  /** Of one call, whatever comes. */
  callMs: number
  /** For how long, and how much, an answer is read on when the client has left. Then the request is canceled. */
  drainMs: number
  drainBytes: number
  /** Maximum number of server-sent events in one answer. */
  answerEvents: number
  /** Of one answer, and of one request, unpacked. */
  answerBytes: number
  requestBytes: number
  /** Of one grant at the same time. */
  callsAtOnce: number
  requestBytesAtOnce: number
  tunnelsAtOnce: number
  /** For a client to say what it wants. */
  requestMs: number
  /** How long a call waits for the reservations of other calls to return to a budget that they have used up. */
  budgetWaitMs: number
}

const MINUTE = 60_000
const MIB = 1024 * 1024

export const DEFAULTS: GatewayOptions = {
  retry: { triesMax: 6, totalMs: 2 * MINUTE, firstMs: 500, pauseMaxMs: MINUTE, quietMs: MINUTE },
  headersMs: 10 * MINUTE,
  idleMs: 10 * MINUTE,
  callMs: 60 * MINUTE,
  drainMs: 5_000,
  drainBytes: 64 * MIB,
  answerEvents: 1_000_000,
  answerBytes: 256 * MIB,
  requestBytes: 32 * MIB,
  callsAtOnce: 64,
  requestBytesAtOnce: 96 * MIB,
  tunnelsAtOnce: 256,
  requestMs: 2 * MINUTE,
  budgetWaitMs: 2 * MINUTE,
}
