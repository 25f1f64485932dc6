import type { Db } from '../../platform/db/db.ts'

export const listApprovedRows = (db: Db, repository: number) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .innerJoin('task_contents', 'task_contents.digest', 'batch_tasks.digest')
    .select(['batch_tasks.batch', 'batch_tasks.id', 'batch_tasks.title', 'batch_tasks.difficulty'])
    .select('batch_tasks.pull_request')
    .select(['task_contents.digest', 'task_contents.archive'])
    .where('batches.repository', '=', repository)
    .where('batch_tasks.decision', '=', 'approved')
    .orderBy('batches.created_at')
    .orderBy('batch_tasks.batch')
    .orderBy('batch_tasks.id')
    .execute()

export const listStandings = (db: Db, repository: number) =>
  db
    .selectFrom('batch_tasks')
    .innerJoin('batches', 'batches.id', 'batch_tasks.batch')
    .select(['batch_tasks.batch', 'batch_tasks.id', 'batch_tasks.state'])
    .where('batches.repository', '=', repository)
    .execute()
