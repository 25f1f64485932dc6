import { countLeftSpend, type Holder, takeSpend } from '../../gateway/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { keyOf, trialId } from '../trial-id.ts'
import { addSpend, findState, type TrialFacts, type TrialKey } from './sql.ts'

const SUBJECT = 'trial '

/** For whom a grant of a trial is. */
export const subjectOf = (trial: TrialKey): string => SUBJECT + trialId(trial)

/** What a trial spent since it was last counted. Who asks nobody spends nothing, and is not looked up. */
export const takeSpendOf = async (tx: Db, trial: TrialFacts): Promise<number> =>
  trial.provider === 'none' ? 0 : takeSpend(tx, { workspaceId: trial.workspaceId, subject: subjectOf(trial) })

/** Of trials that were canceled, or whose worker died as they were: what they spent is spent all the same. */
export const countLeft = (db: Db): Promise<void> => countLeftSpend(db, count)

async function count(tx: Db, { subject }: Holder, take: () => Promise<number>): Promise<void> {
  const trial = subject.startsWith(SUBJECT) ? keyOf(subject.slice(SUBJECT.length)) : undefined
  if (!trial) return
  const state = await findState(tx, trial)
  // Whoever ends it counts it.
  if (state === 'queued' || state === 'running') return
  await addSpend(tx, trial, await take())
}
