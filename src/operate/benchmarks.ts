import { toBenchmarkDeps } from '../app.ts'
import { addBenchmark } from '../benchmarks/add.ts'
import { listBenchmarks, readBenchmark, removeBenchmark } from '../benchmarks/benchmarks.ts'
import type { AddProgress, Benchmark, BenchmarkTask } from '../benchmarks/schema.ts'
import type { Config } from '../config.ts'
import type { Log } from '../platform/log.ts'
import { openServices } from '../services.ts'
import { readWorkspaceRow } from '../workspaces/workspaces.ts'
import { withExistingData } from './operate.ts'

/** Page size that fits the whole list. A page query reads one row more than its limit. */
const LISTED_MAX = Number.MAX_SAFE_INTEGER - 1

/** Benchmark operations for the operator, without a running service. */
export type LocalBenchmarks = {
  add(input: { reference: string }, onProgress: (progress: AddProgress) => void): Promise<Benchmark>
  list(): Promise<Benchmark[]>
  read(datasetOrg: string, dataset: string): Promise<Benchmark & { taskList: BenchmarkTask[] }>
  remove(datasetOrg: string, dataset: string): Promise<void>
}

export const withBenchmarks = <T>(
  config: Config,
  log: Log,
  { org, signal }: { org: string; signal: AbortSignal },
  work: (benchmarks: LocalBenchmarks) => Promise<T>,
): Promise<T> =>
  withExistingData(config, log, async (db, database) => {
    const workspace = await readWorkspaceRow(db, org)
    const deps = toBenchmarkDeps(await openServices(config, database, log))
    const by = { workspaceId: workspace.id, actor: 'operator' }
    return work({
      add: async ({ reference }, onProgress) =>
        (await addBenchmark(deps, by, reference, { signal, onProgress })).benchmark,
      list: async () => (await listBenchmarks(db, workspace.id, { limit: LISTED_MAX })).benchmarks,
      read: (datasetOrg, dataset) => readBenchmark(db, { workspaceId: workspace.id, datasetOrg, dataset }),
      remove: (datasetOrg, dataset) => removeBenchmark(db, by, { datasetOrg, dataset }),
    })
  })
