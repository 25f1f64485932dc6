import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'

/** One thing that the check found in a task. The task is null when it is the dataset as a whole. */
export const Finding = z
  .object({
    task: z.string().nullable(),
    rule: z.string(),
    severity: z.enum(['block', 'warn']),
    path: z.string(),
    detail: z.string(),
  })
  .meta({ id: 'BenchmarkFinding' })
export type Finding = z.infer<typeof Finding>

const digest = z.string().describe('`sha256:` and 64 hexadecimal digits, as Harbor computes it.')

const count = z.number().int().min(0)

/** How far the tasks were tried, and what came of it. */
const BenchmarkCalibration = z
  .object({
    sandbox: z.string(),
    done: count,
    fit: count.describe('Tasks whose solution passes and whose tests refuse doing nothing, in some verify mode.'),
    weak: count.describe('Of them, those that a known cheat passes.'),
  })
  .meta({ id: 'BenchmarkCalibration' })

export const TaskTrying = z
  .object({
    verifyMode: z.string().nullable().describe('The strictest that fits. Null: none does.'),
    strength: z.enum(['weak', 'standard', 'strong']).nullable(),
    winners: z.array(z.string()).describe('Known cheats that score.'),
    error: z.string().nullable().describe('Why it does not fit, or could not be tried.'),
  })
  .meta({ id: 'TaskTrying' })
export type TaskTrying = z.infer<typeof TaskTrying>

export const Benchmark = z
  .object({
    reference: z.string().describe('As it was given.'),
    datasetOrg: z.string(),
    dataset: z.string(),
    ref: z.string().describe('What was asked for: a tag, a revision or a digest.'),
    resolvedRef: z.string().describe('What that was when the dataset was added.'),
    digest,
    tasks: z.number().int().min(1),
    description: z.string(),
    addedAt: z.iso.datetime(),
    check: z.object({ status: z.literal('passed'), ruleset: z.string(), warnings: z.array(Finding) }),
    calibration: BenchmarkCalibration.optional(),
  })
  .meta({ id: 'Benchmark' })
export type Benchmark = z.infer<typeof Benchmark>

export const BenchmarkTask = z
  .object({ name: z.string(), digest, calibration: TaskTrying.nullable() })
  .meta({ id: 'BenchmarkTask' })
export type BenchmarkTask = z.infer<typeof BenchmarkTask>

const BenchmarkWithTasks = Benchmark.extend({ taskList: z.array(BenchmarkTask) }).meta({ id: 'BenchmarkWithTasks' })

export const AddProgress = z
  .object({
    done: z.number().int().min(0).describe('Tasks that were downloaded and checked.'),
    total: z.number().int().min(1),
    bytes: z.number().int().min(0).describe('Received so far.'),
  })
  .meta({ id: 'AddProgress' })
export type AddProgress = z.infer<typeof AddProgress>

export const datasetNotFound = {
  code: 'dataset_not_found',
  status: 404,
  title: 'No registry has this dataset',
  meaning:
    'None of the registries of this server knows a dataset of that name and version that this workspace may see.',
} as const satisfies ProblemKind

export const tooManyTasks = {
  code: 'too_many_tasks',
  status: 422,
  title: 'The dataset has too many tasks',
  meaning: 'A benchmark has at most 500 tasks. Nothing was downloaded.',
} as const satisfies ProblemKind

export const noTasks = {
  code: 'no_tasks',
  status: 422,
  title: 'The dataset has no tasks',
  meaning: 'There is nothing to compare on.',
} as const satisfies ProblemKind

export const benchmarkRefused = {
  code: 'benchmark_refused',
  status: 422,
  title: 'The dataset did not pass',
  meaning: '`findings` says what is wrong with which task. Nothing of it was kept; what was added before is as it was.',
} as const satisfies ProblemKind

export const registryAccessRefused = {
  code: 'registry_access_refused',
  status: 422,
  title: 'The registry did not accept our key',
  meaning: 'The registry credential of this workspace is not valid there any more. Put a new secret in.',
} as const satisfies ProblemKind

export const registryUnavailable = {
  code: 'registry_unavailable',
  status: 503,
  title: 'The registry cannot be reached',
  meaning: 'It is away, slow or overloaded. Ask again: what was downloaded is kept for a day and not downloaded twice.',
  retryable: true,
} as const satisfies ProblemKind

export const addBenchmark = endpoint({
  id: 'addBenchmark',
  method: 'POST',
  path: '/api/orgs/{org}/benchmarks',
  summary:
    'Add a dataset of a registry: download it, recompute every digest, check every task, keep all of it or nothing',
  access: 'write',
  body: z.strictObject({
    reference: z
      .string()
      .max(400)
      .describe('`<dataset-org>/<dataset>`, or with `@` and a tag, a revision or a `sha256:` digest.'),
    calibrate: z
      .boolean()
      .default(false)
      .describe('Afterwards try every task in a sandbox: its solution, doing nothing, and the known cheats.'),
  }),
  example: { reference: 'assay/quick' },
  answers: { 201: Benchmark, 200: Benchmark },
  problems: [datasetNotFound, tooManyTasks, noTasks, benchmarkRefused, registryAccessRefused, registryUnavailable],
  progress: AddProgress,
  creates: true,
})

export const listBenchmarks = endpoint({
  id: 'listBenchmarks',
  method: 'GET',
  path: '/api/orgs/{org}/benchmarks',
  summary: 'List the benchmarks, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ benchmarks: z.array(Benchmark), nextCursor: z.string().nullable() }) },
})

export const readBenchmark = endpoint({
  id: 'readBenchmark',
  method: 'GET',
  path: '/api/orgs/{org}/benchmarks/{datasetOrg}/{dataset}',
  summary: 'Read a benchmark with its tasks',
  access: 'read',
  answers: { 200: BenchmarkWithTasks },
})

export const removeBenchmark = endpoint({
  id: 'removeBenchmark',
  method: 'DELETE',
  path: '/api/orgs/{org}/benchmarks/{datasetOrg}/{dataset}',
  summary: 'Remove a benchmark; comparisons on it stay',
  access: 'write',
  answers: { 204: null },
})
