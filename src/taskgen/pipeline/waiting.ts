import type { Db } from '../../platform/db/db.ts'
import { jobIdsOf } from './enqueue.ts'
import { hasOpenModel, listMaking } from './sql.ts'
import { isStage } from './stage.ts'

type Making = Awaited<ReturnType<typeof listMaking>>[number]

const idsOf = (batch: string, tasks: readonly Making[]): string[] =>
  tasks.flatMap(({ id, stage }) => (isStage(stage) ? jobIdsOf({ batch, task: id, stage }) : []))

/** Every job of a batch that may wait or run. */
export const jobsOf = async (db: Db, batch: string): Promise<string[]> => idsOf(batch, await listMaking(db, batch))

/** Those of tasks that wait for something. */
export const waitingJobsOf = async (db: Db, batch: string): Promise<string[]> =>
  idsOf(
    batch,
    (await listMaking(db, batch)).filter(({ deferral }) => deferral !== null),
  )

/** Whether a batch that has not ended asks this model. */
export const isModelAsked = (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  hasOpenModel(db, workspaceId, catalogId)
