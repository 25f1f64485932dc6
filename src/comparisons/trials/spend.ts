import { countLeftSpend, type Holder, type HolderSpend, readHolderSpend, takeSpend } from '../../gateway/spend/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { keyOf, trialId } from '../trial-id.ts'
import { addSpend, findState, type TrialFacts, type TrialKey } from './sql.ts'

const SUBJECT = 'trial '

/** Id of the budget that all trials of a comparison share. */
export const sharedBudgetOf = (comparison: number): string => `comparison ${comparison}`

/** For whom a grant of a trial is. */
export const subjectOf = (trial: TrialKey): string => SUBJECT + trialId(trial)

/** What a trial spent since it was last counted. Who asks nobody spends nothing, and is not looked up. */
export const takeSpendOf = async (tx: Db, trial: TrialFacts): Promise<number> =>
  trial.provider === 'none' ? 0 : takeSpend(tx, { workspaceId: trial.workspaceId, subject: subjectOf(trial) })

/** The cost and usage of a trial: of all calls of all its attempts. Undefined: it asks no model. */
export const readTrialSpend = async (tx: Db, trial: TrialFacts): Promise<HolderSpend | undefined> =>
  trial.provider === 'none'
    ? undefined
    : readHolderSpend(tx, { workspaceId: trial.workspaceId, subject: subjectOf(trial) })

/** Of trials that were canceled, or whose worker died as they were: what they spent is spent all the same. */
export const countLeft = (db: Db): Promise<void> => countLeftSpend(db, count)

async function count(tx: Db, { subject }: Holder, take: () => Promise<number>): Promise<void> {
  const trial = subject.startsWith(SUBJECT) ? keyOf(subject.slice(SUBJECT.length)) : undefined
  if (!trial) return
  const state = await findState(tx, trial)
  // Whoever ends it counts it.
  if (state === 'queued' || state === 'running') return
  const micros = await take()
  if (micros !== 0) await addSpend(tx, trial, micros)
}
