import { withDraft } from '../../contents/drafts.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import type { Db } from '../../platform/db/db.ts'
import { type ScreenedTask, screenTask } from '../assembly/screen-task.ts'
import type { Evidence, Rejection, TaskFiles } from '../schema.ts'

type StoreTaskDeps = { db: Db; blobs: Blobs; draftsFolder: string }
type StoreTaskResult = { kind: 'kept'; files: TaskFiles } | ({ kind: 'rejected'; evidence: Evidence } & Rejection)

/** Reads and checks a folder as if it had been imported, and keeps it where all tasks are kept. */
export async function storeTask(deps: StoreTaskDeps, folder: string, taskId: string): Promise<StoreTaskResult> {
  const screened = await screenTask(folder, { id: taskId, path: '' })
  const { task, keep } = screened
  if (task.rejection) return { kind: 'rejected', ...task.rejection, evidence: task.evidence }
  if (!keep || task.digest === null || task.content === null) throw new Error('A task that was taken has no files.')
  await put(deps, taskId, keep)
  return { kind: 'kept', files: { digest: task.digest, content: task.content, evidence: task.evidence } }
}

const put = (
  deps: StoreTaskDeps,
  taskId: string,
  { digest, source }: NonNullable<ScreenedTask['keep']>,
): Promise<void> =>
  withDraft(deps, `made-${taskId}`, async (draft) => {
    await draft.commit([await draft.store.put(digest, source)])
  })
