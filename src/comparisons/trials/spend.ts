import { type FrozenPrices, listFrozenPrices } from '../../gateway/frozen-prices.ts'
import { countLeftSpend, type Holder, type HolderSpend, readHolderSpend, takeSpend } from '../../gateway/spend/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { parseTrialName } from '../outcome.ts'
import { formatTrialId, parseTrialId } from '../trial-id.ts'
import { addSpend, findTrialState, type TrialFacts, type TrialKey } from './sql.ts'

const SUBJECT = 'trial '

/** Id of the budget that all trials of a comparison share. */
export const toSharedBudgetId = (comparison: number): string => `comparison ${comparison}`

/** Identifies a trial as the holder of its grants. */
export const toTrialSubject = (trial: TrialKey): string => SUBJECT + formatTrialId(trial)

/** Takes what a trial spent since it was last counted. Trials without a model have no spend. */
export const takeTrialSpend = async (tx: Db, trial: TrialFacts): Promise<number> =>
  trial.provider === 'none' ? 0 : takeSpend(tx, { workspaceId: trial.workspaceId, subject: toTrialSubject(trial) })

/** Reads cost and usage of all attempts of a trial. Undefined for trials without a model. */
export const readTrialSpend = async (tx: Db, trial: TrialFacts): Promise<HolderSpend | undefined> =>
  trial.provider === 'none'
    ? undefined
    : readHolderSpend(tx, { workspaceId: trial.workspaceId, subject: toTrialSubject(trial) })

/** Counts spend that was settled after its trial ended, for example because it was canceled or its worker died. */
export const countLateSpend = (db: Db): Promise<void> => countLeftSpend(db, countTrialSpend)

/** Lists the prices at which trials were metered, by model, oldest first. Trials are named as in their outcomes. */
export const listTrialPrices = (db: Db, workspaceId: string, trials: readonly string[]): Promise<FrozenPrices[]> =>
  listFrozenPrices(
    db,
    workspaceId,
    trials.map((trial) => toTrialSubject(parseTrialName(trial))),
  )

async function countTrialSpend(tx: Db, { subject }: Holder, take: () => Promise<number>): Promise<void> {
  const trial = subject.startsWith(SUBJECT) ? parseTrialId(subject.slice(SUBJECT.length)) : undefined
  if (!trial) return
  const state = await findTrialState(tx, trial)
  // Open trials are counted when they end.
  if (state === 'queued' || state === 'running') return
  const micros = await take()
  if (micros !== 0) await addSpend(tx, trial, micros)
}
