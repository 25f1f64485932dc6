import { join } from 'node:path'
import { withDraft } from '../../contents/contents.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import type { FileSource } from '../../harbor/source.ts'
import type { Blobs, Digest } from '../../platform/blobs/blob.ts'
import type { Db } from '../../platform/db/db.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { openThreads } from '../../platform/threads.ts'
import type { Rejection, TaskEvidence, TaskFiles } from '../schema.ts'
import type { FolderScreening, ScreenTasks } from './screen-folder.ts'

export type ScreenedTask = FolderScreening & {
  /** The files to store. Undefined if the task is rejected. */
  accepted: { digest: Digest; source: FileSource } | undefined
}

const SCRIPT = new URL('./screen-folder.ts', import.meta.url)
const threads = openThreads<ScreenTasks>(SCRIPT, { timeoutMs: 600_000, memoryMb: 512 })

/** Reads and checks one task in a thread, without executing any of its files. */
export async function screenTask(
  root: string,
  { id, path }: { id: string; path: string },
  buildHosts?: readonly AllowedHost[],
): Promise<ScreenedTask> {
  const folder = join(root, path)
  const { name, task } = await threads.run('screenFolder', { folder, id, buildHosts })
  const { digest } = task
  if (digest === null) return { name, task, accepted: undefined }
  const paths = new Set(task.content?.files.map((file) => file.path))
  return { name, task, accepted: { digest, source: restrictFiles(await openFolderSource(folder), paths) } }
}

/** Limits a source to the files that Harbor packs. */
const restrictFiles = (source: FileSource, paths: ReadonlySet<string>): FileSource => ({
  ...source,
  async list(starts) {
    const { files } = await source.list(starts)
    return { files: files.filter(({ path }) => paths.has(path)), faults: [], isComplete: true }
  },
})

type StoreTaskDeps = { db: Db; blobs: Blobs; draftsFolder: string; buildHosts?: readonly AllowedHost[] | undefined }
type StoreTaskResult = { kind: 'stored'; files: TaskFiles } | ({ kind: 'rejected'; evidence: TaskEvidence } & Rejection)

/** Screens a folder and stores its files, unless they are rejected. */
export async function storeTask(deps: StoreTaskDeps, folder: string, taskId: string): Promise<StoreTaskResult> {
  const { task, accepted } = await screenTask(folder, { id: taskId, path: '' }, deps.buildHosts)
  if (task.rejection) return { kind: 'rejected', ...task.rejection, evidence: task.evidence }
  if (!accepted || task.digest === null || task.content === null) throw new Error('An accepted task has no files.')
  await withDraft(deps, `made-${taskId}`, async (draft) => {
    await draft.commit([await draft.store.put(accepted.digest, accepted.source)])
  })
  return { kind: 'stored', files: { digest: task.digest, content: task.content, evidence: task.evidence } }
}
