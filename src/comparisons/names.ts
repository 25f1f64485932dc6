import type { Db } from '../platform/db/db.ts'
import { type ComparisonRow, findByKey, listSettingRows, listTaskRows } from './sql.ts'
import { keyOf } from './trial-id.ts'
import { isReusedBy, type Names } from './trials/trials.ts'

/** What the positions in its trials stand for. */
export async function namesOf(db: Db, row: ComparisonRow): Promise<Names> {
  const tasks = await listTaskRows(db, row.key)
  const settings = await listSettingRows(db, [row.key])
  return {
    key: row.key,
    workspaceId: row.workspace_id,
    submittedAt: row.submitted_at,
    attempts: row.attempts,
    tasks: tasks.map(({ name, digest, run_id, task_id }) => ({
      ...{ name, digest },
      ...(run_id === null || task_id === null ? {} : { runId: run_id, taskId: task_id }),
    })),
    settings: settings.map(({ id }) => ({ id })),
  }
}

/**
 * Returns the names for a trial that can be read in this comparison: its own, or those of the comparison that a reused
 * trial comes from, whatever scope that one is in.
 */
export async function namesForTrial(db: Db, names: Names, trialId: string): Promise<Names> {
  const source = keyOf(trialId)
  if (!source || source.comparison === names.key || !(await isReusedBy(db, names.key, source))) return names
  const row = await findByKey(db, source.comparison)
  return row ? namesOf(db, row) : names
}
