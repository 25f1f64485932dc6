import type { Db } from '../platform/db/db.ts'
import { type ComparisonRow, findByKey, listSettingRows, listTaskRows } from './sql.ts'
import { parseTrialId } from './trial-id.ts'
import { isTrialReusedBy } from './trials/sql.ts'
import type { ComparisonNames } from './trials/trials.ts'

/** Loads the tasks and settings that the trial rows of a comparison refer to by position. */
export async function loadComparisonNames(db: Db, row: ComparisonRow): Promise<ComparisonNames> {
  const tasks = await listTaskRows(db, row.key)
  const settings = await listSettingRows(db, [row.key])
  return {
    key: row.key,
    workspaceId: row.workspace_id,
    submittedAt: row.submitted_at,
    attempts: row.attempts,
    tasks: tasks.map(({ name, digest, run_id, task_id }) => ({
      name,
      digest,
      runId: run_id ?? undefined,
      taskId: task_id ?? undefined,
    })),
    settings: settings.map(({ id }) => ({ id })),
  }
}

/**
 * Returns the names for a trial that is readable through this comparison: the comparison's own, or those of the
 * comparison that a reused trial comes from, which may belong to another scope.
 */
export async function loadNamesForTrial(db: Db, names: ComparisonNames, trialId: string): Promise<ComparisonNames> {
  const source = parseTrialId(trialId)
  if (!source || source.comparison === names.key || !(await isTrialReusedBy(db, names.key, source))) return names
  const row = await findByKey(db, source.comparison)
  return row ? loadComparisonNames(db, row) : names
}
