import type { Quote } from '../src/comparisons/costs/schema.ts'
import type { ComparisonEndpoints } from '../src/comparisons/schema.ts'
import type { Comparison, NewComparison } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { parseDatasetName } from './benchmarks.ts'
import { WrongUse } from './failure.ts'
import { parseCount } from './flag-values.ts'
import { parseRepositoryName } from './repository.ts'
import { filterByGlob } from './run-target.ts'
import type { Service } from './service.ts'

export type ScopeFlags = { repo?: string; task?: string[]; limit?: string }

/** A request for a comparison whose tasks the scope still has to resolve. */
export type CompareRequest = Pick<NewComparison, 'id' | 'models' | 'sandbox' | 'sandboxCredentialId' | 'attempts'> &
  Partial<NewComparison> & { taskNames?: string[] }

/** A benchmark or a repository, with the endpoints and parameters to compare on it. */
export type ScopeClient = {
  endpoints: ComparisonEndpoints
  params: Record<string, string>
  /** The scope as arguments of a command line: `org/name` or `--repo owner/name`. */
  argument: string
  /** Selects the tasks of a request, so that it can be quoted and created. Starts nothing. */
  prepare: (service: Service, request: CompareRequest) => Promise<PreparedComparison>
}

type PreparedComparison = {
  /** Merge times of the pull requests behind the tasks. */
  mergedAt: string[]
  quote: () => Promise<Quote>
  create: () => Promise<Comparison>
}

const loadContract = () => import('../src/comparisons/schema.ts')

export async function openScope(flags: ScopeFlags, benchmark: string | undefined): Promise<ScopeClient> {
  const { repo, task = [] } = flags
  const limit = flags.limit === undefined ? undefined : parseCount(flags.limit, '--limit')
  const hasRepository = repo !== undefined
  const hasBenchmark = benchmark !== undefined
  if (hasRepository === hasBenchmark)
    throw new WrongUse('Give either a benchmark as org/name or a repository with --repo owner/name.')
  if (repo !== undefined) return openRepositoryScope(repo, task, limit)
  return openBenchmarkScope(benchmark ?? '', task, limit)
}

async function openBenchmarkScope(argument: string, globs: string[], limit: number | undefined): Promise<ScopeClient> {
  const { inBenchmark: endpoints } = await loadContract()
  const [datasetOrg, dataset] = parseDatasetName(argument)
  const params = { datasetOrg, dataset }
  return {
    endpoints,
    params,
    argument,
    async prepare(service, compareRequest) {
      const scopeParams = { org: service.org, ...params }
      const body = { ...compareRequest }
      if (globs.length > 0 || limit !== undefined) {
        const { body: options } = await call(service, endpoints.options, { params: scopeParams })
        body.taskNames = filterByGlob(options.tasks, listBenchmarkNames, globs)
          .slice(0, limit)
          .map(({ name }) => name)
      }
      const request = { params: scopeParams, body }
      return {
        mergedAt: [],
        quote: async () => (await call(service, endpoints.quote, request)).body,
        create: async () => (await call(service, endpoints.create, request)).body,
      }
    },
  }
}

/** Lists the names by which a filter finds a task: `org/name`, and the name alone. */
const listBenchmarkNames = ({ name }: { name: string }): string[] => [name, name.slice(name.indexOf('/') + 1)]

async function openRepositoryScope(repo: string, tasks: string[], limit: number | undefined): Promise<ScopeClient> {
  const { inRepository: endpoints } = await loadContract()
  const repository = parseRepositoryName(repo)
  const areRefs = tasks.every(isTaskRef)
  const taskRefs = areRefs ? tasks.map(parseTaskRef) : []
  const globs = areRefs ? [] : tasks
  return {
    endpoints,
    params: repository,
    argument: `--repo ${repo}`,
    async prepare(service, compareRequest) {
      const params = { org: service.org, ...repository }
      const approved = (await call(service, endpoints.options, { params })).body.tasks
      if (taskRefs.length === 0 && approved.length === 0)
        throw new WrongUse(`No task of ${repo} is approved. Approve tasks with assay batches approve.`)
      const matching = taskRefs.length > 0 ? taskRefs : filterByGlob(approved, listTaskNames, globs)
      const request = {
        params,
        body: { ...compareRequest, tasks: matching.slice(0, limit).map(({ runId, taskId }) => ({ runId, taskId })) },
      }
      const { tasks: chosenTasks } = request.body
      const isChosen = (task: { runId: string; taskId: string }) =>
        chosenTasks.some(({ runId, taskId }) => runId === task.runId && taskId === task.taskId)
      return {
        quote: async () => (await call(service, endpoints.quote, request)).body,
        create: async () => (await call(service, endpoints.create, request)).body,
        mergedAt: approved.filter(isChosen).flatMap(({ pullRequest }) => pullRequest?.mergedAt ?? []),
      }
    },
  }
}

/** Returns true for `batch/task`, which names one task and is no glob. The service refuses a task that is not approved. */
const isTaskRef = (text: string): boolean => /^[^*?[\]{}/]+\/[^*?[\]{}/]+$/.test(text)

/** Lists the names by which a filter finds a task: `batch/task`, and the task alone. */
const listTaskNames = ({ runId, taskId }: { runId: string; taskId: string }): string[] => [`${runId}/${taskId}`, taskId]

function parseTaskRef(text: string): { runId: string; taskId: string } {
  const [runId = '', taskId = ''] = text.split('/')
  return { runId, taskId }
}
