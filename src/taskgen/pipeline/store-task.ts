import { withDraft } from '../../contents/contents.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import type { Db } from '../../platform/db/db.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { type ScreenedTask, screenTask } from '../assembly/screen-task.ts'
import type { Rejection, StageEvidence, TaskEvidence, TaskFiles } from '../schema.ts'
import { deletePassed, listPassed } from './sql.ts'
import { FIRST_REVIEWED_STAGE, STAGES } from './stage.ts'

type StoreTaskDeps = { db: Db; blobs: Blobs; draftsFolder: string; buildHosts?: readonly AllowedHost[] | undefined }
type StoreTaskResult = { kind: 'stored'; files: TaskFiles } | ({ kind: 'rejected'; evidence: TaskEvidence } & Rejection)

/** Reads and checks a folder like an imported task, and stores it in the content store. */
export async function storeTask(deps: StoreTaskDeps, folder: string, taskId: string): Promise<StoreTaskResult> {
  const screened = await screenTask(folder, { id: taskId, path: '' }, deps.buildHosts)
  const { task, accepted } = screened
  if (task.rejection) return { kind: 'rejected', ...task.rejection, evidence: task.evidence }
  if (!accepted || task.digest === null || task.content === null) throw new Error('An accepted task has no files.')
  await storeFiles(deps, taskId, accepted)
  return { kind: 'stored', files: { digest: task.digest, content: task.content, evidence: task.evidence } }
}

const storeFiles = (
  deps: StoreTaskDeps,
  taskId: string,
  { digest, source }: NonNullable<ScreenedTask['accepted']>,
): Promise<void> =>
  withDraft(deps, `made-${taskId}`, async (draft) => {
    await draft.commit([await draft.store.put(digest, source)])
  })

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
