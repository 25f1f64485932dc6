import type { Db } from '../../platform/db/db.ts'
import { firstCounts } from '../counts.ts'
import { plan, type Shape } from '../plan.ts'
import { insertPlan, listReusable } from './sql.ts'

/** Writes every trial of a comparison, and the counts with which it begins. */
export async function storePlan(tx: Db, key: number, shape: Shape, skipCompleted: boolean): Promise<void> {
  const trials = plan(shape, skipCompleted ? await listReusable(tx, key) : [])
  await insertPlan(tx, key, trials, firstCounts(shape.settings, trials))
}
