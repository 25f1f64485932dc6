import type { Db } from '../platform/db/db.ts'
import { runIdOf, TaskPullRequest } from '../taskgen/schema.ts'
import type { BatchTask } from './schema.ts'
import { listApprovedRows, listStandings } from './sql.ts'

export type ApprovedTask = {
  runId: string
  taskId: string
  title: string
  difficulty: BatchTask['difficulty']
  digest: string
  /** The blob that holds its files. */
  archive: string
  pullRequest: TaskPullRequest | null
}

/** What comparisons of a repository may choose from, the oldest first. The repository by its key. */
export async function listApprovedTasks(db: Db, repository: number): Promise<ApprovedTask[]> {
  const found = await listApprovedRows(db, repository)
  return found.map(({ batch, id, title, difficulty, digest, archive, pull_request }) => ({
    ...{ runId: runIdOf(batch), taskId: id, title, difficulty, digest, archive },
    pullRequest: TaskPullRequest.nullable().parse(pull_request),
  }))
}

type TaskStanding = { runId: string; taskId: string; state: BatchTask['state'] }

/** Every task of a repository, whatever became of it. */
export async function listTaskStandings(db: Db, repository: number): Promise<TaskStanding[]> {
  const found = await listStandings(db, repository)
  return found.map(({ batch, id, state }) => ({ runId: runIdOf(batch), taskId: id, state }))
}
