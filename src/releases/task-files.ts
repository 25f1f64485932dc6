import { openContent } from '../contents/contents.ts'
import { type Blobs, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { Problem } from '../platform/problem.ts'
import { type Result, tasksOf } from './aggregate.ts'
import type { ApprovedTask } from './facts.ts'
import type { Standing } from './preview.ts'
import { secretsFound } from './schema.ts'
import { type Secret, secretsIn } from './secret-scan.ts'
import { replacePublicTasks } from './sql.ts'

export type TaskFiles = { db: Db; blobs: Blobs }

type Finding = Secret & { task: string }

const FINDINGS_MAX = 50

/** Looks through every file of the tasks that these settings show. Answers the digests of those that hold no secret. */
export async function requireClean(
  { blobs }: TaskFiles,
  tasks: readonly ApprovedTask[],
  chosen: readonly Result[],
): Promise<ReadonlySet<string>> {
  const wanted = new Set(tasksOf(chosen))
  const looked = tasks.filter(({ digest }) => wanted.has(digest))
  const findings: Finding[] = []
  for (const task of looked) findings.push(...(await findingsIn(blobs, task)))
  if (findings.length === 0) return new Set(looked.map(({ digest }) => digest))
  const [first] = findings
  const members = { findings: findings.slice(0, FINDINGS_MAX) }
  throw new Problem(secretsFound, `${first?.task}: ${first?.path}: ${first?.detail}`, { members })
}

/** Whole files, whatever is in them: what is public is read by everybody. */
async function findingsIn(blobs: Blobs, { taskId, archive }: ApprovedTask): Promise<Finding[]> {
  if (!isDigest(archive)) throw new Error('A task has an archive that is none.')
  const found = await secretsIn(openContent(blobs, archive))
  return found.map((secret) => ({ task: taskId, ...secret }))
}

/** True: some were not public before, or with other files. */
export function publishFiles(
  { db }: { db: Db },
  { repository, facts }: Standing,
  chosen: readonly Result[],
  clean: ReadonlySet<string>,
): Promise<boolean> {
  const wanted = new Set(tasksOf(chosen))
  const shown = facts.tasks.filter(({ digest }) => wanted.has(digest))
  if (shown.some(({ digest }) => !clean.has(digest))) throw new Error('Files were not looked through.')
  return replacePublicTasks(db, repository.key, named(shown))
}

/** By the task's own id; where two batches have the same, by its content too. */
function named(tasks: readonly ApprovedTask[]) {
  const counts = Map.groupBy(tasks, ({ taskId }) => taskId)
  return tasks.map(({ taskId, digest, title, difficulty }) => ({
    id: (counts.get(taskId)?.length ?? 0) > 1 ? `${taskId.slice(0, 80)}-${digest.slice(-12)}` : taskId,
    ...{ digest, title, difficulty },
  }))
}
