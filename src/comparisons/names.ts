import type { Db } from '../platform/db/db.ts'
import { type ComparisonRow, listSettingRows, listTaskRows } from './sql.ts'
import type { Names } from './trials/trials.ts'

/** What the positions in its trials stand for. */
export async function namesOf(db: Db, row: ComparisonRow): Promise<Names> {
  const tasks = await listTaskRows(db, row.key)
  const settings = await listSettingRows(db, [row.key])
  return {
    key: row.key,
    submittedAt: row.submitted_at,
    attempts: row.attempts,
    tasks: tasks.map(({ name, digest, run_id, task_id }) => ({
      ...{ name, digest },
      ...(run_id === null || task_id === null ? {} : { runId: run_id, taskId: task_id }),
    })),
    settings: settings.map(({ id }) => ({ id })),
  }
}
