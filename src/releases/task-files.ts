import { openContent } from '../contents/contents.ts'
import { type Blobs, isDigest } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { Problem } from '../platform/problem.ts'
import { listTasks, type SettingResult } from './aggregate.ts'
import type { ReleaseTask } from './facts.ts'
import type { ReleaseContext } from './preview.ts'
import { secretsFound } from './schema.ts'
import { findSecrets, type SuspectedSecret } from './secret-scan.ts'
import { replacePublicTasks } from './sql.ts'

export type PublishTasksDeps = { db: Db; blobs: Blobs }

type SecretFinding = SuspectedSecret & { task: string }

const FINDINGS_MAX = 50

/** Scans every file of the tasks of these settings. Returns their digests; throws if a file contains a suspected secret. */
export async function requireClean(
  { blobs }: PublishTasksDeps,
  tasks: readonly ReleaseTask[],
  chosen: readonly SettingResult[],
): Promise<ReadonlySet<string>> {
  const published = new Set(listTasks(chosen))
  const scanned = tasks.filter(({ digest }) => published.has(digest))
  const findings: SecretFinding[] = []
  for (const task of scanned) findings.push(...(await scanTask(blobs, task)))
  if (findings.length === 0) return new Set(scanned.map(({ digest }) => digest))
  const [first] = findings
  const members = { findings: findings.slice(0, FINDINGS_MAX) }
  throw new Problem(secretsFound, `${first?.task}: ${first?.path}: ${first?.detail}`, { members })
}

/** Scans complete files of any type, because published files are readable by anyone. */
async function scanTask(blobs: Blobs, { taskId, archive }: ReleaseTask): Promise<SecretFinding[]> {
  if (!isDigest(archive)) throw new Error('Invalid archive digest of a task')
  const secrets = await findSecrets(openContent(blobs, archive))
  return secrets.map((secret) => ({ task: taskId, ...secret }))
}

/** Publishes task files. Returns true if a task was not public before or had other files. */
export function publishFiles(
  { db }: { db: Db },
  { repository, facts }: ReleaseContext,
  chosen: readonly SettingResult[],
  clean: ReadonlySet<string>,
): Promise<boolean> {
  const published = new Set(listTasks(chosen))
  const tasks = facts.tasks.filter(({ digest }) => published.has(digest))
  if (tasks.some(({ digest }) => !clean.has(digest))) throw new Error('Task files were not scanned for secrets')
  return replacePublicTasks(db, repository.key, toPublicTasks(tasks))
}

/** Names tasks by their id. Ids that occur in several batches get a part of the digest. */
function toPublicTasks(tasks: readonly ReleaseTask[]) {
  const counts = Map.groupBy(tasks, ({ taskId }) => taskId)
  return tasks.map(({ taskId, digest, title, difficulty }) => ({
    id: (counts.get(taskId)?.length ?? 0) > 1 ? `${taskId.slice(0, 80)}-${digest.slice(-12)}` : taskId,
    digest,
    title,
    difficulty,
  }))
}
