import { type FrozenPrices, listFrozenPrices } from '../../gateway/frozen-prices.ts'
import type { Db } from '../../platform/db/db.ts'
import { keyOfName } from '../outcome.ts'
import { subjectOf } from './spend.ts'

/** At which prices these trials, by the names that their outcomes have, were counted. By model, the oldest first. */
export const listTrialPrices = (db: Db, workspaceId: string, trials: readonly string[]): Promise<FrozenPrices[]> =>
  listFrozenPrices(
    db,
    workspaceId,
    trials.map((trial) => subjectOf(keyOfName(trial))),
  )
