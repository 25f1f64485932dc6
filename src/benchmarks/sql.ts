import { type Insertable, sql } from 'kysely'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'

const BENCHMARK_COLUMNS = [
  'id',
  'reference',
  'dataset_org',
  'dataset',
  'ref',
  'resolved_ref',
  'digest',
  'tasks',
  'description',
  'ruleset',
  'warnings',
  'added_at',
  'calibrated_in',
] as const

export type BenchmarkRow = NonNullable<Awaited<ReturnType<typeof findBenchmarkRow>>>
/** Identifies a benchmark of a workspace. */
export type BenchmarkRef = { workspaceId: string; datasetOrg: string; dataset: string }

/** Serializes adding, replacing and removing a benchmark. */
export const lockBenchmark = (tx: Db, { workspaceId, datasetOrg, dataset }: BenchmarkRef) =>
  lock(tx, `benchmark ${workspaceId} ${datasetOrg}/${dataset}`)

export const findBenchmarkRow = (db: Db, { workspaceId, datasetOrg, dataset }: BenchmarkRef) =>
  db
    .selectFrom('benchmarks')
    .select(BENCHMARK_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .where('dataset_org', '=', datasetOrg)
    .where('dataset', '=', dataset)
    .executeTakeFirst()

/** Finds the dataset that a benchmark was resolved to. It can be frozen even after the benchmark is removed. */
export const findResolvedDataset = (db: Db, { workspaceId, datasetOrg, dataset }: BenchmarkRef) =>
  db
    .selectFrom('benchmarks')
    .select(['tasks', 'resolved'])
    .where('workspace_id', '=', workspaceId)
    .where('dataset_org', '=', datasetOrg)
    .where('dataset', '=', dataset)
    .executeTakeFirst()

export const listBenchmarkRows = (db: Db, workspaceId: string, page: Page) =>
  db
    .selectFrom('benchmarks')
    .select(BENCHMARK_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .$call(pageNewestFirst('added_at', page))
    .execute()

export const listTaskRows = (db: Db, benchmarkId: string) =>
  db
    .selectFrom('benchmark_tasks')
    .select(['name', 'digest', 'calibration'])
    .where('benchmark_id', '=', benchmarkId)
    .orderBy('name')
    .execute()

/** Counts calibrated tasks per benchmark, by result. */
export const countCalibrated = (db: Db, benchmarkIds: readonly string[]) =>
  db
    .selectFrom('benchmark_tasks')
    .select('benchmark_id')
    .select(({ fn }) => fn.countAll<number>().as('done'))
    .select(sql<number>`count(*) filter (where calibration ->> 'verifyMode' is not null)`.as('fit'))
    .select(sql<number>`count(*) filter (where calibration ->> 'strength' = 'weak')`.as('weak'))
    .where('benchmark_id', 'in', benchmarkIds)
    .where('calibration', 'is not', null)
    .groupBy('benchmark_id')
    .execute()

export const setCalibratedIn = (tx: Db, benchmarkId: string, sandbox: string) =>
  tx.updateTable('benchmarks').set({ calibrated_in: sandbox }).where('id', '=', benchmarkId).execute()

/** Finds a task. Undefined if the benchmark was removed or replaced meanwhile. */
export const findTaskRow = (db: Db, benchmarkId: string, name: string) =>
  db
    .selectFrom('benchmark_tasks')
    .select(['digest', 'calibration'])
    .where('benchmark_id', '=', benchmarkId)
    .where('name', '=', name)
    .executeTakeFirst()

export const setCalibration = (tx: Db, benchmarkId: string, name: string, calibration: string) =>
  tx
    .updateTable('benchmark_tasks')
    .set({ calibration })
    .where('benchmark_id', '=', benchmarkId)
    .where('name', '=', name)
    .execute()

type NewBenchmark = Omit<Insertable<DB['benchmarks']>, 'added_at' | 'calibrated_in'>

/** Inserts a benchmark, replacing an existing one. */
export async function replaceBenchmark(tx: Db, row: NewBenchmark, tasks: { name: string; digest: string }[]) {
  await deleteBenchmarkRow(tx, { workspaceId: row.workspace_id, datasetOrg: row.dataset_org, dataset: row.dataset })
  const inserted = await tx.insertInto('benchmarks').values(row).returning(BENCHMARK_COLUMNS).executeTakeFirstOrThrow()
  await tx
    .insertInto('benchmark_tasks')
    .values(tasks.map((task) => ({ benchmark_id: row.id, ...task })))
    .execute()
  return inserted
}

export async function deleteBenchmarkRow(tx: Db, { workspaceId, datasetOrg, dataset }: BenchmarkRef): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('benchmarks')
    .where('workspace_id', '=', workspaceId)
    .where('dataset_org', '=', datasetOrg)
    .where('dataset', '=', dataset)
    .executeTakeFirstOrThrow()
  return numDeletedRows > 0n
}
