import type { ComparisonEndpoints } from '../src/comparisons/schema.ts'
import type { Comparison, NewComparison } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { partsOf } from './benchmarks.ts'
import { WrongUse } from './failure.ts'
import { repositoryName } from './repository.ts'
import type { Service } from './service.ts'

export type GroundsFlags = { repo?: string; task?: string[] }

/** Everything but the tasks. */
export type ComparisonWish = Pick<NewComparison, 'id' | 'models' | 'sandbox' | 'sandboxCredentialId' | 'attempts'> &
  Partial<NewComparison>

/** Where comparisons are made: on a benchmark, or on approved tasks of a repository. */
export type Grounds = {
  endpoints: ComparisonEndpoints
  params: Record<string, string>
  /** As a command line names it. */
  words: string
  create: (service: Service, wish: ComparisonWish) => Promise<Created>
}

/** `mergedAt`: when the changes landed that its tasks were made of, as far as they were. */
type Created = { comparison: Comparison; mergedAt: string[] }

const contract = () => import('../src/comparisons/schema.ts')

export async function groundsOf(flags: GroundsFlags, benchmark: string | undefined): Promise<Grounds> {
  const { repo, task = [] } = flags
  if ((repo === undefined) === (benchmark === undefined))
    throw new WrongUse('Name a benchmark as org/name, or a repository with --repo owner/name.')
  if (repo !== undefined) return inRepository(repo, task)
  if (task.length > 0) throw new WrongUse('--task is for --repo: a benchmark is compared on as a whole.')
  return onBenchmark(benchmark ?? '')
}

async function onBenchmark(words: string): Promise<Grounds> {
  const { inBenchmark: endpoints } = await contract()
  const [datasetOrg, dataset] = partsOf(words)
  const params = { datasetOrg, dataset }
  return {
    ...{ endpoints, params, words },
    async create(service, body) {
      const created = await call(service, endpoints.create, { params: { org: service.org, ...params }, body })
      return { comparison: created.body, mergedAt: [] }
    },
  }
}

async function inRepository(repo: string, tasks: string[]): Promise<Grounds> {
  const { inRepository: endpoints } = await contract()
  const place = repositoryName(repo)
  const named = tasks.map(choiceOf)
  return {
    ...{ endpoints, params: place, words: `--repo ${repo}` },
    async create(service, wish) {
      const params = { org: service.org, ...place }
      const approved = (await call(service, endpoints.options, { params })).body.tasks
      const chosen = named.length > 0 ? named : approved
      if (chosen.length === 0) throw new WrongUse(`No task of ${repo} is approved: assay batches approve.`)
      const body = { ...wish, tasks: chosen.map(({ runId, taskId }) => ({ runId, taskId })) }
      const { body: comparison } = await call(service, endpoints.create, { params, body })
      const isChosen = (task: { runId: string; taskId: string }) =>
        chosen.some(({ runId, taskId }) => runId === task.runId && taskId === task.taskId)
      return {
        comparison,
        mergedAt: approved.filter(isChosen).flatMap(({ pullRequest }) => pullRequest?.mergedAt ?? []),
      }
    },
  }
}

function choiceOf(text: string): { runId: string; taskId: string } {
  const [runId = '', taskId = '', ...rest] = text.split('/')
  if (runId === '' || taskId === '' || rest.length > 0) throw new WrongUse('Name a task as batch-…/task.')
  return { runId, taskId }
}
