import type { Db } from '../platform/db/db.ts'
import { TaskPullRequest, toRunId } from '../taskgen/schema.ts'
import type { BatchTask } from './schema.ts'
import { listApprovedPaths, listApprovedRows, listTaskStateRows } from './sql.ts'

export type ApprovedTask = {
  runId: string
  taskId: string
  title: string
  difficulty: BatchTask['difficulty']
  digest: string
  /** Digest of the blob that holds the task's files. */
  archive: string
  pullRequest: TaskPullRequest | null
}

/** Lists the approved tasks of a repository, oldest first. `repository` is the key of its row. */
export async function listApprovedTasks(db: Db, repository: number): Promise<ApprovedTask[]> {
  const found = await listApprovedRows(db, repository)
  return found.map(({ batch, id, title, difficulty, digest, archive, pull_request }) => ({
    runId: toRunId(batch),
    taskId: id,
    title,
    difficulty,
    digest,
    archive,
    pullRequest: TaskPullRequest.nullable().parse(pull_request),
  }))
}

/** Lists the paths of the files of each approved task with one of these digests. */
export async function listTaskPaths(db: Db, repository: number, digests: readonly string[]): Promise<string[][]> {
  const found = await listApprovedPaths(db, repository, digests)
  return found.map(({ paths }) => paths ?? [])
}

type TaskState = { runId: string; taskId: string; state: BatchTask['state'] }

/** Lists all tasks of a repository with their states. */
export async function listTaskStates(db: Db, repository: number): Promise<TaskState[]> {
  const found = await listTaskStateRows(db, repository)
  return found.map(({ batch, id, state }) => ({ runId: toRunId(batch), taskId: id, state }))
}
