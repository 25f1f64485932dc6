import { useRead } from '../api/use-api.ts'
import { listBenchmarks, listRepositories } from '../endpoints.gen.ts'
import type { Scope } from './scope.ts'

/**
 * Returns any benchmark or repository of the workspace. The path of the catalog contains one, although the catalog is the
 * same for all. The scope is undefined while loading, and if the workspace has neither.
 */
export function useAnyScope(): { scope: Scope | undefined; isLoading: boolean } {
  const benchmarks = useRead(listBenchmarks, { query: { limit: 1 } })
  const repositories = useRead(listRepositories, { query: { limit: 1 } })
  const isLoading = benchmarks.isLoading || repositories.isLoading
  const benchmark = benchmarks.data?.benchmarks[0]
  const repository = repositories.data?.repos[0]
  if (benchmark)
    return { scope: { kind: 'benchmark', datasetOrg: benchmark.datasetOrg, dataset: benchmark.dataset }, isLoading }
  if (repository) return { scope: { kind: 'repository', owner: repository.owner, name: repository.name }, isLoading }
  return { scope: undefined, isLoading }
}
