import {
  countUncountedSpend,
  type FrozenPrices,
  type GranteeRef,
  type GranteeSpend,
  listFrozenPrices,
  readGranteeSpend,
  takeSpend,
} from '../../gateway/spend/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { parseTrialName } from '../outcome.ts'
import { formatTrialId, parseTrialId } from '../trial-id.ts'
import { addSpend, findTrialState, type TrialFacts, type TrialKey } from './sql.ts'

const GRANTEE_PREFIX = 'trial '

/** Id of the budget that all trials of a comparison share. */
export const toSharedBudgetId = (comparison: number): string => `comparison ${comparison}`

/** Identifies a trial as the grantee of its grants. */
export const toTrialGrantee = (trial: TrialKey): string => GRANTEE_PREFIX + formatTrialId(trial)

/** Takes what a trial spent since it was last counted. Trials without a model have no spend. */
export const takeTrialSpend = async (tx: Db, trial: TrialFacts): Promise<number> =>
  trial.provider === 'none' ? 0 : takeSpend(tx, { workspaceId: trial.workspaceId, grantee: toTrialGrantee(trial) })

/** Reads cost and usage of all attempts of a trial. Undefined for trials without a model. */
export const readTrialSpend = async (tx: Db, trial: TrialFacts): Promise<GranteeSpend | undefined> =>
  trial.provider === 'none'
    ? undefined
    : readGranteeSpend(tx, { workspaceId: trial.workspaceId, grantee: toTrialGrantee(trial) })

/** Counts spend that was settled after its trial ended, for example because it was canceled or its worker died. */
export const countLateSpend = (db: Db): Promise<void> => countUncountedSpend(db, countTrialSpend)

/** Lists the prices at which trials were metered, by model, oldest first. Trials are named as in their outcomes. */
export const listTrialPrices = (db: Db, workspaceId: string, trials: readonly string[]): Promise<FrozenPrices[]> =>
  listFrozenPrices(
    db,
    workspaceId,
    trials.map((trial) => toTrialGrantee(parseTrialName(trial))),
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
