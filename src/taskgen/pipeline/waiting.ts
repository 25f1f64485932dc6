import type { Db } from '../../platform/db/db.ts'
import { listJobIds } from './enqueue.ts'
import { hasOpenModel, listTasksInProgress } from './sql.ts'
import { isStage } from './stage.ts'

type TaskInStage = Awaited<ReturnType<typeof listTasksInProgress>>[number]

const toJobIds = (batch: string, tasks: readonly TaskInStage[]): string[] =>
  tasks.flatMap(({ id, stage }) => (isStage(stage) ? listJobIds({ batch, task: id, stage }) : []))

/** Lists every job of a batch that may be queued or running. */
export const listStageJobs = async (db: Db, batch: string): Promise<string[]> =>
  toJobIds(batch, await listTasksInProgress(db, batch))

/** Lists the jobs of deferred tasks. */
export const listDeferredJobs = async (db: Db, batch: string): Promise<string[]> =>
  toJobIds(
    batch,
    (await listTasksInProgress(db, batch)).filter(({ deferral }) => deferral !== null),
  )

/** True if an open batch uses the model. */
export const isModelInUse = (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  hasOpenModel(db, workspaceId, catalogId)
