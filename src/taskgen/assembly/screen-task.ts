import { join } from 'node:path'
import { openFolderSource } from '../../harbor/folder-source.ts'
import type { FileSource } from '../../harbor/source.ts'
import type { Digest } from '../../platform/blobs/blob.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { openThreads } from '../../platform/threads/threads.ts'
import type { FolderScreening, NewTask, ScreenTasks } from './screen-folder.ts'

export type { NewTask }

export type ScreenedTask = Pick<FolderScreening, 'name' | 'task'> & {
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
  const { name, task, digest } = await threads.run('screenFolder', { folder, id, buildHosts })
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
