import { z } from 'zod'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { type Benchmark, BenchmarkTask, Finding } from './schema.ts'
import * as rows from './sql.ts'

export async function listBenchmarks(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listBenchmarkRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(
    found,
    page.limit,
    (row) => row,
    (row) => ({ at: row.added_at, id: row.id }),
  )
  return { benchmarks: await describe(db, items), nextCursor }
}

export async function readBenchmark(db: Db, place: rows.Place): Promise<Benchmark & { taskList: BenchmarkTask[] }> {
  const row = await rows.findBenchmarkRow(db, place)
  if (!row) throw missing(place)
  const [benchmark = benchmarkOf(row)] = await describe(db, [row])
  const tasks = await rows.listTaskRows(db, row.id)
  return { ...benchmark, taskList: tasks.map((task) => BenchmarkTask.parse(task)) }
}

/** With how far their tasks were tried, where that was asked for. */
async function describe(db: Db, found: rows.BenchmarkRow[]): Promise<Benchmark[]> {
  const ids = found.flatMap(({ id, calibrated_in: sandbox }) => (sandbox === null ? [] : [id]))
  const tried = ids.length > 0 ? await rows.countTried(db, ids) : []
  return found.map((row) => {
    const { done = 0, fit = 0, weak = 0 } = tried.find((counts) => counts.benchmark_id === row.id) ?? {}
    const sandbox = row.calibrated_in
    return { ...benchmarkOf(row), ...(sandbox === null ? {} : { calibration: { sandbox, done, fit, weak } }) }
  })
}

export function removeBenchmark(db: Db, by: By, { datasetOrg, dataset }: Omit<rows.Place, 'workspaceId'>) {
  const place = { workspaceId: by.workspaceId, datasetOrg, dataset }
  return transact(db, async (tx) => {
    await rows.lockBenchmark(tx, place)
    if (!(await rows.deleteBenchmarkRow(tx, place))) throw missing(place)
    await record(tx, { ...by, action: 'benchmark.removed', subject: `${datasetOrg}/${dataset}` })
  })
}

const missing = ({ datasetOrg, dataset }: rows.Place): Problem =>
  new Problem(notFound, `The benchmark ${datasetOrg}/${dataset} is not in this workspace.`)

const Warnings = z.array(Finding)

export const benchmarkOf = (row: rows.BenchmarkRow): Benchmark => ({
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
