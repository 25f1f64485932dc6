import type { RecordedCall } from '../../gateway/ledger.ts'
import {
  countUncountedSpend,
  type FrozenPrices,
  type GranteeRef,
  type GranteeSpend,
  listDailySpend,
  listFrozenPrices,
  listGranteeCalls,
  readGranteeSpend,
  takeSpendMicros,
} from '../../gateway/spend/spend.ts'
import type { Usage } from '../../gateway/wire-protocol.ts'
import type { Db } from '../../platform/db/db.ts'
import { toUsd } from '../../platform/usd.ts'
import type { WorkspaceSpend } from '../costs/schema.ts'
import { parseTrialKey } from '../outcome.ts'
import { formatTrialId, parseTrialId } from '../plan.ts'
import type { TrialCall } from '../shapes/schema.ts'
import { listSettingSpend } from './queue/sql.ts'
import { addSpend, findTrialState, type TrialFacts, type TrialKey } from './sql.ts'

const GRANTEE_PREFIX = 'trial '

/** Identifies a trial as the grantee of its grants. */
export const toTrialGrantee = (trial: TrialKey): string => GRANTEE_PREFIX + formatTrialId(trial)

/** Takes the spend of a trial that has not been counted yet. Trials without a model have no spend. */
export const takeTrialSpend = async (tx: Db, trial: TrialFacts): Promise<number> =>
  trial.provider === 'none'
    ? 0
    : takeSpendMicros(tx, { workspaceId: trial.workspaceId, grantee: toTrialGrantee(trial) })

/** Reads cost and usage of all attempts of a trial. Undefined for trials without a model. */
export const findTrialSpend = async (tx: Db, trial: TrialFacts): Promise<GranteeSpend | undefined> =>
  trial.provider === 'none'
    ? undefined
    : readGranteeSpend(tx, { workspaceId: trial.workspaceId, grantee: toTrialGrantee(trial) })

/** Counts spend that was settled after its trial ended, for example because it was canceled or its worker died. */
export const countLateSpend = (db: Db): Promise<void> => countUncountedSpend(db, countTrialSpend)

/** Lists the prices at which trials were metered, by model, oldest first. `trials` are keys as in outcomes. */
export const listTrialPrices = (db: Db, workspaceId: string, trials: readonly string[]): Promise<FrozenPrices[]> =>
  listFrozenPrices(
    db,
    workspaceId,
    trials.map((trial) => toTrialGrantee(parseTrialKey(trial))),
  )

async function countTrialSpend(tx: Db, { grantee }: GranteeRef, take: () => Promise<number>): Promise<void> {
  const trial = grantee.startsWith(GRANTEE_PREFIX) ? parseTrialId(grantee.slice(GRANTEE_PREFIX.length)) : undefined
  if (!trial) return
  const state = await findTrialState(tx, trial)
  // Open trials are counted when they end.
  if (state === 'queued' || state === 'running') return
  const micros = await take()
  if (micros !== 0) await addSpend(tx, trial, micros)
}

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
  costUsd: call.costMicros === null || call.outcome === 'open' ? null : toUsd(call.costMicros),
  pendingUsd: call.outcome === 'open' ? toUsd(call.reservedMicros ?? 0) : 0,
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

const DAY_MS = 86_400_000
const SETTINGS_MAX = 100

/** Reads the spend of a workspace on the last days, today included. Days begin at midnight UTC. */
export async function readWorkspaceSpend(db: Db, workspaceId: string, days: number): Promise<WorkspaceSpend> {
  const since = new Date(new Date().setUTCHours(0, 0, 0, 0) - (days - 1) * DAY_MS)
  const daily = await listDailySpend(db, workspaceId, since)
  const settings = await listSettingSpend(db, workspaceId, since, SETTINGS_MAX)
  return {
    from: since.toISOString().slice(0, 10),
    costUsd: toUsd(daily.reduce((sum, { micros }) => sum + micros, 0)),
    days: daily.map(({ day, provider, micros }) => ({ day, provider, costUsd: toUsd(micros) })),
    settings: settings.map(({ micros, ...setting }) => ({ ...setting, costUsd: toUsd(micros) })),
  }
}
