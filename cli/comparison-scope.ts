import type { Quote } from '../src/comparisons/quotes/schema.ts'
import type { ComparisonEndpoints } from '../src/comparisons/schema.ts'
import type { Comparison, NewComparison } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { parseDatasetName } from './benchmarks.ts'
import { WrongUse } from './failure.ts'
import { parseRepositoryName } from './repository.ts'
import type { Service } from './service.ts'

export type ScopeFlags = { repo?: string; task?: string[] }

/** A comparison without its tasks. */
export type CompareRequest = Pick<NewComparison, 'id' | 'models' | 'sandbox' | 'sandboxCredentialId' | 'attempts'> &
  Partial<NewComparison>

/** The scope of a comparison: a benchmark, or approved tasks of a repository. */
export type ScopeClient = {
  endpoints: ComparisonEndpoints
  params: Record<string, string>
  /** The scope as arguments of a command line. */
  argument: string
  /** Resolves the tasks. Starts nothing. */
  prepare: (service: Service, request: CompareRequest) => Promise<PreparedComparison>
}

type PreparedComparison = {
  /** Merge times of the pull requests behind the tasks. */
  mergedAt: string[]
  quote: () => Promise<Quote>
  create: () => Promise<Comparison>
}

const contract = () => import('../src/comparisons/schema.ts')

export async function openScope(flags: ScopeFlags, benchmark: string | undefined): Promise<ScopeClient> {
  const { repo, task = [] } = flags
  if ((repo === undefined) === (benchmark === undefined))
    throw new WrongUse('Give either a benchmark as org/name or a repository with --repo owner/name.')
  if (repo !== undefined) return openRepositoryScope(repo, task)
  if (task.length > 0) throw new WrongUse('--task can only be used with --repo.')
  return openBenchmarkScope(benchmark ?? '')
}

async function openBenchmarkScope(argument: string): Promise<ScopeClient> {
  const { inBenchmark: endpoints } = await contract()
  const [datasetOrg, dataset] = parseDatasetName(argument)
  const params = { datasetOrg, dataset }
  return {
    endpoints,
    params,
    argument,
    async prepare(service, body) {
      const request = { params: { org: service.org, ...params }, body }
      return {
        mergedAt: [],
        quote: async () => (await call(service, endpoints.quote, request)).body,
        create: async () => (await call(service, endpoints.create, request)).body,
      }
    },
  }
}

async function openRepositoryScope(repo: string, tasks: string[]): Promise<ScopeClient> {
  const { inRepository: endpoints } = await contract()
  const repository = parseRepositoryName(repo)
  const named = tasks.map(parseTaskRef)
  return {
    endpoints,
    params: repository,
    argument: `--repo ${repo}`,
    async prepare(service, choices) {
      const params = { org: service.org, ...repository }
      const approved = (await call(service, endpoints.options, { params })).body.tasks
      const chosen = named.length > 0 ? named : approved
      if (chosen.length === 0)
        throw new WrongUse(`No task of ${repo} is approved. Approve tasks with assay batches approve.`)
      const request = {
        params,
        body: { ...choices, tasks: chosen.map(({ runId, taskId }) => ({ runId, taskId })) },
      }
      const isChosen = (task: { runId: string; taskId: string }) =>
        chosen.some(({ runId, taskId }) => runId === task.runId && taskId === task.taskId)
      return {
        quote: async () => (await call(service, endpoints.quote, request)).body,
        create: async () => (await call(service, endpoints.create, request)).body,
        mergedAt: approved.filter(isChosen).flatMap(({ pullRequest }) => pullRequest?.mergedAt ?? []),
      }
    },
  }
}

function parseTaskRef(text: string): { runId: string; taskId: string } {
  const [runId = '', taskId = '', ...rest] = text.split('/')
  if (runId === '' || taskId === '' || rest.length > 0) throw new WrongUse('Give a task as batch-…/task.')
  return { runId, taskId }
}
