import type { RecordedCall } from '../../gateway/ledger.ts'
import { listGranteeCalls } from '../../gateway/spend/spend.ts'
import type { Usage } from '../../gateway/wire-protocol.ts'
import type { Db } from '../../platform/db/db.ts'
import type { TrialCall } from '../shapes/schema.ts'
import { toTrialGrantee } from './spend.ts'
import type { TrialKey } from './sql.ts'

/** Lists the calls of all attempts of a trial, oldest first. */
export async function listTrialCalls(
  db: Db,
  workspaceId: string,
  trial: TrialKey,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
) {
  const grantee = { workspaceId, grantee: toTrialGrantee(trial) }
  const callsAndNext = await listGranteeCalls(db, grantee, { limit: limit + 1, after: cursor })
  const calls = callsAndNext.slice(0, limit).map(toTrialCall)
  return { calls, nextCursor: callsAndNext.length > limit ? (calls.at(-1)?.id ?? null) : null }
}

const toTrialCall = (call: RecordedCall): TrialCall => ({
  id: call.id,
  at: call.startedAt.toISOString(),
  protocol: call.protocol,
  model: call.servedModel,
  askedFor: call.helper,
  outcome: call.outcome,
  status: call.status,
  failure: call.failure,
  message: call.message ?? null,
  tries: call.tries,
  usage: toPublicUsage(call.usage),
  costUsd: call.costMicros === null || call.outcome === 'open' ? null : call.costMicros / 1e6,
  pendingUsd: call.outcome === 'open' ? (call.reservedMicros ?? 0) / 1e6 : 0,
  outputLimit: call.outputLimit,
  costSource: call.costSource,
  firstByteMs: call.firstByteMs,
  totalMs: call.totalMs,
  levelMismatch: call.levelAsked !== null,
  bodies: call.bodies !== null,
})

/** Converts usage to the form in the API, in which the cache writes of both durations are summed. */
export const toPublicUsage = ({ input, cacheRead, cacheWrite5m, cacheWrite1h, output, reasoning }: Usage) => ({
  input,
  cacheRead,
  cacheWrite: cacheWrite5m + cacheWrite1h,
  output,
  reasoning,
})
