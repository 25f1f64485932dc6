import { z } from 'zod'
import { contents } from '../contents/contents.ts'
import { computeDatasetDigest } from '../harbor/digest.ts'
import { runInParallel } from '../harbor/registries/in-parallel.ts'
import { type Blobs, Digest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import type { Frozen } from './sql.ts'

/** The files of an approved task are not kept here any more. */
export class TasksGone extends Error {
  override name = 'TasksGone'
}

const Chosen = z.object({
  tasks: z.array(z.object({ runId: z.string(), taskId: z.string(), digest: Digest })),
})
type Choice = z.infer<typeof Chosen>['tasks'][number]

/** Each waits for the disk or for the store. */
const PARALLEL = 8

/** The approved tasks of a repository, as they were when they were chosen. Their files are kept here: nothing is downloaded. */
export async function freezeChosen(
  tools: { db: Db; blobs: Blobs },
  source: unknown,
  signal: AbortSignal,
): Promise<Frozen> {
  const { tasks } = Chosen.parse(source)
  const stored = await contents(tools).find(tasks.map(({ digest }) => digest))
  await runInParallel(tasks, PARALLEL, signal, async ({ runId, taskId, digest }) => {
    const archive = stored.get(digest)?.archive
    if (archive === undefined || (await tools.blobs.find(archive)) === undefined)
      throw new TasksGone(
        `The files of ${runId}/${taskId} are not kept any more. Import the same task again, then resume.`,
      )
  })
  const names = namesOf(tasks)
  return {
    digest: computeDatasetDigest(tasks.map(({ digest }) => digest)),
    tasks: tasks.map(({ runId, taskId, digest }, place) => ({
      ...{ name: names[place] ?? taskId, digest, run_id: runId, task_id: taskId },
    })),
  }
}

/** Each another: tasks of two batches may be called the same. */
function namesOf(tasks: readonly Choice[]): string[] {
  const sharing = Map.groupBy(tasks, ({ taskId }) => taskId)
  return tasks.map(({ runId, taskId }) => (sharing.get(taskId)?.length === 1 ? taskId : `${runId}/${taskId}`))
}
