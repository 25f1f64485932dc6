import type { Db } from '../../platform/db/db.ts'
import type { StageEvidence } from '../schema.ts'
import { deletePassed, listPassed } from './sql.ts'
import { JUDGING, STAGES } from './stage.ts'

/** What the stages of a task found, in their order. */
export async function stagesOf(db: Db, batch: string, task: string): Promise<StageEvidence[]> {
  const passed = await listPassed(db, { batch, task })
  const names: readonly string[] = STAGES
  const order = (stage: string) => names.indexOf(stage)
  return passed
    .toSorted((one, other) => order(one.stage) - order(other.stage))
    .map(({ stage, is_reused, passed_at, seconds, result }) => ({
      ...{ stage, passedAt: passed_at.toISOString(), seconds, reused: is_reused, evidence: result.evidence },
    }))
}

/** Its instruction is another one now: what judged the old one says nothing of it. */
export const forgetJudgement = async (tx: Db, batch: string, task: string): Promise<void> =>
  void (await deletePassed(tx, { batch, task }, STAGES.slice(STAGES.indexOf(JUDGING))))
