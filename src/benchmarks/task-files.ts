import { findContent, openContent, readContentFile } from '../contents/contents.ts'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { notFound, Problem } from '../platform/problem.ts'
import type { BenchmarkTaskFiles } from './schema.ts'
import { type BenchmarkRef, findBenchmarkRow, findTaskRow } from './sql.ts'

type BenchmarkFilesDeps = { db: Db; blobs: Blobs }

/** Names a task of a benchmark. */
export type BenchmarkTaskRef = BenchmarkRef & { taskOrg: string; task: string }

/** Maximum number of files in a list. A task may have 50,000. */
const LISTED_MAX = 5000

/** Finds the stored files of a task. Throws not found. */
export async function readStoredTask(deps: BenchmarkFilesDeps, ref: BenchmarkTaskRef): Promise<StoredTask> {
  const benchmark = await findBenchmarkRow(deps.db, ref)
  const row = benchmark && (await findTaskRow(deps.db, benchmark.id, `${ref.taskOrg}/${ref.task}`))
  const stored = row && (await findContent(deps, row.digest))
  if (!stored) throw new Problem(notFound, 'The benchmark has no such task in this workspace.')
  return stored
}

/** Lists the files of a task, sorted by path. */
export async function listTaskFiles(
  { blobs }: BenchmarkFilesDeps,
  { archive }: StoredTask,
  signal: AbortSignal,
): Promise<BenchmarkTaskFiles> {
  const files: BenchmarkTaskFiles['files'] = []
  for await (const { path, bytes, content } of openContent(blobs, archive)) {
    signal.throwIfAborted()
    files.push({ path, bytes })
    for await (const _ of content);
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1))
  return { files: files.slice(0, LISTED_MAX), total: files.length }
}

/** Opens one file of a task. The path is only compared with those in the archive. Throws not found. */
export async function openTaskFile({ blobs }: BenchmarkFilesDeps, { archive }: StoredTask, path: string) {
  for await (const file of openContent(blobs, archive)) {
    if (file.path === path) return { bytes: file.bytes, content: readContentFile(blobs, archive, path) }
    for await (const _ of file.content);
  }
  throw new Problem(notFound, 'The task has no such file.')
}
