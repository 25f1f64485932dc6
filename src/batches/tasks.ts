import { z } from 'zod'
import { findContent, readContentFile } from '../contents/contents.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { toUsd } from '../platform/usd.ts'
import { listStageEvidence } from '../taskgen/pipeline/facts.ts'
import { Rejection, TaskContent, TaskEvidence, TaskPullRequest, toRunId, Waiting } from '../taskgen/schema.ts'
import { type BatchTask, type BatchTaskDetail, RejectionEvidence } from './schema.ts'
import * as rows from './sql.ts'

type TaskFilesDeps = { db: Db; blobs: Blobs }

export type FullTaskRow = NonNullable<Awaited<ReturnType<typeof rows.findTaskRow>>>

export async function listTasks(db: Db, batch: string): Promise<BatchTask[]> {
  return (await rows.listTaskRows(db, batch)).map(toBatchTask)
}

export async function readTaskRow(db: Db, batch: string, id: string): Promise<FullTaskRow> {
  const row = await rows.findTaskRow(db, batch, id)
  if (row) return row
  throw new Problem(notFound, `There is no task ${id} in this batch.`)
}

export const toBatchTask = (row: rows.TaskRow): BatchTask => ({
  taskId: row.id,
  state: row.state,
  stage: row.stage,
  difficulty: row.difficulty,
  requestedDifficulty: row.requested_difficulty,
  title: row.title,
  pullRequest: TaskPullRequest.nullable().parse(row.pull_request),
  digest: row.digest,
  decision: row.decision,
  rejection: row.rejection === null ? undefined : Rejection.parse(row.rejection),
  deferred: row.deferral === null ? undefined : Waiting.parse(row.deferral),
  concerns: Concerns.parse(row.concerns),
})

const Concerns = z.array(z.string())

const parseContent = ({ content }: FullTaskRow): TaskContent | undefined =>
  content === null ? undefined : TaskContent.parse(content)

const StoredEvidence = TaskEvidence.extend({ rejection: RejectionEvidence })

export const readTaskDetail = async (db: Db, row: FullTaskRow): Promise<BatchTaskDetail> => ({
  ...toBatchTask(row),
  instruction: parseContent(row)?.instruction ?? null,
  files: parseContent(row)?.files ?? [],
  evidence: { ...StoredEvidence.parse(row.evidence), stages: await listStageEvidence(db, row.batch, row.id) },
  costUsd: toUsd(row.spent_micros),
  note: row.note,
  decidedAt: row.decided_at?.toISOString() ?? null,
})

/** Returns size and hash of a file of a task; throws notFound. The path is only compared, never opened. */
export function readFileFacts(row: FullTaskRow, path: string): TaskContent['files'][number] {
  const file = parseContent(row)?.files.find((each) => each.path === path)
  if (file) return file
  throw new Problem(notFound, 'The task has no such file.')
}

/** Returns the ETag of a task file. */
export const toEtag = ({ sha256 }: { sha256: string }): string => `"${sha256}"`

export async function openTaskFile(deps: TaskFilesDeps, row: FullTaskRow, path: string) {
  const file = readFileFacts(row, path)
  const { archive } = await readStoredFiles(deps, row)
  return { ...file, content: readContentFile(deps.blobs, archive, path) }
}

export async function openTaskArchive(deps: TaskFilesDeps, row: FullTaskRow) {
  const { archive, bytes } = await readStoredFiles(deps, row)
  return { bytes, content: await deps.blobs.get(archive) }
}

/** Returns the stored files of a task; throws notFound. */
export async function readStoredFiles(deps: TaskFilesDeps, { digest }: FullTaskRow) {
  const stored = await findContent(deps, digest)
  if (stored) return stored
  throw new Problem(notFound, 'The files of this task were not stored.')
}

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
  const approved = await rows.listApprovedRows(db, repository)
  return approved.map(({ batch, id, title, difficulty, digest, archive, pull_request }) => ({
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
  const approved = await rows.listApprovedPaths(db, repository, digests)
  return approved.map(({ paths }) => paths ?? [])
}

type TaskState = { runId: string; taskId: string; state: BatchTask['state'] }

/** Lists all tasks of a repository with their states. */
export async function listTaskStates(db: Db, repository: number): Promise<TaskState[]> {
  const tasks = await rows.listTaskStateRows(db, repository)
  return tasks.map(({ batch, id, state }) => ({ runId: toRunId(batch), taskId: id, state }))
}
