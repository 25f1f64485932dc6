import { join } from 'node:path'
import { z } from 'zod'
import { findContent, openContent, readContentFile, withDraft } from '../contents/contents.ts'
import { downloadDataset } from '../harbor/registries/download.ts'
import type { TaskFault } from '../harbor/registries/receive.ts'
import {
  type AccessOptions,
  formatTaskName,
  type Registry,
  type ResolvedDataset,
} from '../harbor/registries/registry.ts'
import type { StoredTask } from '../harbor/registries/task-store.ts'
import { type Blobs, Digest } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { type Benchmark, BenchmarkFinding, BenchmarkTask, type BenchmarkTaskFiles } from './schema.ts'
import * as rows from './sql.ts'

/** A query that comparisons, which may not import sql.ts, use as it is. */
export const { findResolvedDataset } = rows

export type BenchmarkDeps = {
  db: Db
  blobs: Blobs
  registry: Registry
  /** Folder for downloads until all tasks have passed the check. */
  draftsFolder: string
  /** Returns the registry key of a workspace, if it has one. */
  registryKey: (workspaceId: string) => Promise<string | undefined>
  /** Hosts of private networks that the operator allows as registries of images. */
  buildHosts?: readonly AllowedHost[]
}

export async function listBenchmarks(db: Db, workspaceId: string, page: Page) {
  const listed = await rows.listBenchmarkRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(listed, page.limit, ({ added_at: at, id }) => ({ at, id }))
  return { benchmarks: await withCalibration(db, items), nextCursor }
}

export async function readBenchmark(
  db: Db,
  ref: rows.BenchmarkRef,
): Promise<Benchmark & { taskList: BenchmarkTask[] }> {
  const row = await rows.findBenchmarkRow(db, ref)
  if (!row) throw toNotFound(ref)
  const [benchmark = toBenchmark(row)] = await withCalibration(db, [row])
  const tasks = await rows.listTaskRows(db, row.id)
  return { ...benchmark, taskList: tasks.map((task) => BenchmarkTask.parse(task)) }
}

/** Adds the progress of calibration where it was requested. */
async function withCalibration(db: Db, benchmarks: rows.BenchmarkRow[]): Promise<Benchmark[]> {
  const ids = benchmarks.flatMap(({ id, calibrated_in: sandbox }) => (sandbox === null ? [] : [id]))
  const progress = ids.length > 0 ? await rows.countCalibrated(db, ids) : []
  return benchmarks.map((row) => {
    const { done = 0, fit = 0, weak = 0 } = progress.find((counts) => counts.benchmark_id === row.id) ?? {}
    const sandbox = row.calibrated_in
    return { ...toBenchmark(row), calibration: sandbox === null ? undefined : { sandbox, done, fit, weak } }
  })
}

export function removeBenchmark(
  db: Db,
  by: AuditActor,
  { datasetOrg, dataset }: Omit<rows.BenchmarkRef, 'workspaceId'>,
) {
  const ref = { workspaceId: by.workspaceId, datasetOrg, dataset }
  return transact(db, async (tx) => {
    await rows.lockBenchmark(tx, ref)
    if (!(await rows.deleteBenchmarkRow(tx, ref))) throw toNotFound(ref)
    await record(tx, { ...by, action: 'benchmark.removed', subject: `${datasetOrg}/${dataset}` })
  })
}

export const toNotFound = ({ datasetOrg, dataset }: rows.BenchmarkRef): Problem =>
  new Problem(notFound, `The benchmark ${datasetOrg}/${dataset} is not in this workspace.`)

const Warnings = z.array(BenchmarkFinding)

export const toBenchmark = (row: rows.BenchmarkRow): Benchmark => ({
  reference: row.reference,
  datasetOrg: row.dataset_org,
  dataset: row.dataset,
  ref: row.ref,
  resolvedRef: row.resolved_ref,
  digest: row.digest,
  tasks: row.tasks,
  description: row.description,
  addedAt: row.added_at.toISOString(),
  check: { status: 'passed', ruleset: row.ruleset, warnings: Warnings.parse(row.warnings) },
})

type BenchmarkFilesDeps = { db: Db; blobs: Blobs }

/** Identifies a task of a benchmark. */
export type BenchmarkTaskRef = rows.BenchmarkRef & { taskOrg: string; task: string }

/** Maximum number of files in a list. A task may have 50,000. */
const FILES_LISTED_MAX = 5000

/** Reads where the files of a task are stored. Throws not found. */
export async function readStoredTask(deps: BenchmarkFilesDeps, ref: BenchmarkTaskRef): Promise<StoredTask> {
  const benchmark = await rows.findBenchmarkRow(deps.db, ref)
  const row = benchmark && (await rows.findTaskRow(deps.db, benchmark.id, `${ref.taskOrg}/${ref.task}`))
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
    // The next entry of the archive follows after the content of this one.
    for await (const _ of content);
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1))
  return { files: files.slice(0, FILES_LISTED_MAX), total: files.length }
}

/** Opens one file of a task. The path is only compared with those in the archive. Throws not found. */
export async function openTaskFile({ blobs }: BenchmarkFilesDeps, { archive }: StoredTask, path: string) {
  for await (const file of openContent(blobs, archive)) {
    if (file.path === path) return { bytes: file.bytes, content: readContentFile(blobs, archive, path) }
    // The next entry of the archive follows after the content of this one.
    for await (const _ of file.content);
  }
  throw new Problem(notFound, 'The task has no such file.')
}

type FrozenBenchmarkTask = { name: string; stored: StoredTask }

export type FreezeResult =
  | { kind: 'frozen'; digest: string; tasks: FrozenBenchmarkTask[] }
  /** The content in the registry differs from what was checked. */
  | { kind: 'changed'; detail: string }
  /** The dataset was removed from the registry. */
  | { kind: 'gone'; detail: string }
  | { kind: 'unauthorized'; detail: string }

/**
 * Downloads a benchmark again by its resolved revision, never by its tag, and compares every digest: trials run exactly
 * what was checked. Throws RegistryUnavailable; a retry continues the download.
 */
export async function freezeDataset(
  deps: BenchmarkDeps,
  workspaceId: string,
  resolved: unknown,
  signal: AbortSignal,
): Promise<FreezeResult> {
  const dataset = StoredResolution.parse(resolved)
  const access: AccessOptions = { signal, key: await deps.registryKey(workspaceId) }
  return withDraft(deps, `freeze-${dataset.digest?.replace(':', '-')}`, async (draft) => {
    const store = await draft.openFreshStore(dataset.tasks.flatMap(({ digest }) => digest ?? []))
    const downloadDeps = { registry: deps.registry, store, scratch: join(deps.draftsFolder, 'scratch') }
    const downloaded = await downloadDataset(downloadDeps, dataset, access)
    if (downloaded.kind === 'unauthorized') return downloaded
    if (downloaded.kind === 'refused') return toFailedFreeze(downloaded.faults)
    const tasks = downloaded.dataset.tasks.map((task) => ({ name: formatTaskName(task), stored: task.stored }))
    await draft.commit(tasks.map((task) => task.stored))
    return { kind: 'frozen', digest: downloaded.dataset.digest, tasks }
  })
}

function toFailedFreeze(faults: readonly TaskFault[]): FreezeResult {
  const missing = faults.find(({ reason }) => reason === 'missing')
  if (missing) return { kind: 'gone', detail: missing.detail }
  return { kind: 'changed', detail: faults[0]?.detail ?? '' }
}

/** Resolution of a dataset, as stored in the database. */
const StoredResolution: z.ZodType<ResolvedDataset> = z.object({
  registry: z.string(),
  org: z.string(),
  name: z.string(),
  ref: z.string(),
  resolvedRef: z.string(),
  revision: z.number().nullable(),
  description: z.string(),
  digest: Digest,
  tasks: z.array(
    z.object({
      org: z.string(),
      name: z.string(),
      digest: Digest,
      at: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('archive'), path: z.string() }),
        z.object({ kind: z.literal('git'), url: z.string(), commit: z.string(), path: z.string() }),
        z.object({ kind: z.literal('folder'), path: z.string() }),
      ]),
    }),
  ),
  files: z.array(z.object({ path: z.string(), digest: Digest })),
})
