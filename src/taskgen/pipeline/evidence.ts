import type { Db } from '../../platform/db/db.ts'
import type { StageEvidence } from '../schema.ts'
import { deletePassed, listPassed } from './sql.ts'
import { FIRST_REVIEWED_STAGE, STAGES } from './stage.ts'

/** Lists the evidence of all passed stages in pipeline order. */
export async function listStageEvidence(db: Db, batch: string, task: string): Promise<StageEvidence[]> {
  const passed = await listPassed(db, { batch, task })
  const names: readonly string[] = STAGES
  const order = (stage: string) => names.indexOf(stage)
  return passed
    .toSorted((one, other) => order(one.stage) - order(other.stage))
    .map(({ stage, is_reused, passed_at, seconds, result }) => ({
      stage,
      passedAt: passed_at.toISOString(),
      seconds,
      reused: is_reused,
      evidence: result.evidence,
    }))
}

/** Deletes evidence about a previous version of the instruction. */
export const deleteReviewEvidence = async (tx: Db, batch: string, task: string): Promise<void> =>
  void (await deletePassed(tx, { batch, task }, STAGES.slice(STAGES.indexOf(FIRST_REVIEWED_STAGE))))
