import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'

/** A finding of the safety check. `task` is null if it concerns the dataset as a whole. */
export const BenchmarkFinding = z
  .object({
    task: z.string().nullable(),
    rule: z.string(),
    severity: z.enum(['block', 'warn']),
    path: z.string(),
    detail: z.string(),
  })
  .meta({ id: 'BenchmarkFinding', description: 'A finding of the safety check in one task.' })
export type BenchmarkFinding = z.infer<typeof BenchmarkFinding>

const digest = z.string().describe('`sha256:` and 64 hexadecimal digits, as Harbor computes it.')

const count = z.number().int().min(0)

/** Progress and results of a benchmark's calibration. */
const BenchmarkCalibration = z
  .object({
    sandbox: z.string(),
    done: count,
    fit: count.describe('Tasks with a verify mode in which the reference solution passes and a no-op fails.'),
    weak: count.describe('How many of these a known cheat passes.'),
  })
  .meta({
    id: 'BenchmarkCalibration',
    description: 'How many tasks of a benchmark are calibrated, and with which result.',
  })

export const BenchmarkTaskCalibration = z
  .object({
    verifyMode: z.string().nullable().describe('Strictest usable mode. Null if there is none.'),
    strength: z.enum(['weak', 'standard', 'strong']).nullable(),
    winners: z.array(z.string()).describe('Known cheats that pass.'),
    error: z.string().nullable().describe('Why the task is unusable or could not be calibrated.'),
  })
  .meta({ id: 'BenchmarkTaskCalibration', description: 'The calibration of one task of a benchmark.' })
export type BenchmarkTaskCalibration = z.infer<typeof BenchmarkTaskCalibration>

export const Benchmark = z
  .object({
    reference: z.string().describe('Reference as given in the request.'),
    datasetOrg: z.string(),
    dataset: z.string(),
    ref: z.string().describe('Requested tag, revision or digest.'),
    resolvedRef: z.string().describe('What `ref` resolved to when the dataset was added.'),
    digest,
    tasks: z.number().int().min(1),
    description: z.string(),
    addedAt: z.iso.datetime(),
    check: z.object({ status: z.literal('passed'), ruleset: z.string(), warnings: z.array(BenchmarkFinding) }),
    calibration: BenchmarkCalibration.optional(),
  })
  .meta({ id: 'Benchmark', description: 'A dataset that the workspace has added.' })
export type Benchmark = z.infer<typeof Benchmark>

export const BenchmarkTask = z
  .object({ name: z.string(), digest, calibration: BenchmarkTaskCalibration.nullable() })
  .meta({ id: 'BenchmarkTask', description: 'A task of a benchmark.' })
export type BenchmarkTask = z.infer<typeof BenchmarkTask>

const BenchmarkWithTasks = Benchmark.extend({ taskList: z.array(BenchmarkTask) }).meta({
  id: 'BenchmarkWithTasks',
  description: 'A benchmark with its tasks.',
})

export const AddProgress = z
  .object({
    done: z.number().int().min(0).describe('Tasks downloaded and checked.'),
    total: z.number().int().min(1),
    bytes: z.number().int().min(0).describe('Bytes received so far.'),
  })
  .meta({ id: 'AddProgress', description: 'Progress of a benchmark that is being added.' })
export type AddProgress = z.infer<typeof AddProgress>

export const datasetNotFound = {
  code: 'dataset_not_found',
  status: 404,
  title: 'Dataset not found',
  meaning: 'No registry of this server has a dataset of this name and version that the workspace can access.',
} as const satisfies ProblemKind

export const tooManyTasks = {
  code: 'too_many_tasks',
  status: 422,
  title: 'Too many tasks in the dataset',
  meaning: 'A benchmark has at most 500 tasks. Nothing was downloaded.',
} as const satisfies ProblemKind

export const noTasks = {
  code: 'no_tasks',
  status: 422,
  title: 'No tasks in the dataset',
  meaning: 'A benchmark needs at least one task.',
} as const satisfies ProblemKind

export const benchmarkRefused = {
  code: 'benchmark_refused',
  status: 422,
  title: 'Dataset did not pass the safety check',
  meaning:
    '`findings` lists the problems per task. Nothing was stored; an earlier version of the benchmark is unchanged.',
} as const satisfies ProblemKind

export const registryAccessRefused = {
  code: 'registry_access_refused',
  status: 422,
  title: 'Registry rejected the key',
  meaning: 'The registry credential of this workspace is no longer valid. Replace its secret.',
} as const satisfies ProblemKind

export const registryUnavailable = {
  code: 'registry_unavailable',
  status: 503,
  title: 'Registry unavailable',
  meaning: 'The registry is down, slow or overloaded. Retry: finished downloads are kept for a day.',
  retryable: true,
} as const satisfies ProblemKind

export const addBenchmark = endpoint({
  id: 'addBenchmark',
  method: 'POST',
  path: '/api/orgs/{org}/benchmarks',
  summary: 'Add a dataset from a registry: download it, verify every digest, check every task, store all or nothing',
  access: 'write',
  body: z.strictObject({
    reference: z
      .string()
      .max(400)
      .describe('`<dataset-org>/<dataset>`, optionally followed by `@` and a tag, revision or `sha256:` digest.'),
    calibrate: z
      .boolean()
      .default(false)
      .describe(
        'Calibrate every task afterwards: run the reference solution, a no-op and the known cheats in a sandbox.',
      ),
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

export const BenchmarkTaskFiles = z
  .object({
    files: z.array(z.object({ path: z.string(), bytes: count })).describe('At most 5,000, sorted by path.'),
    total: count.describe('Number of files of the task.'),
  })
  .meta({ id: 'BenchmarkTaskFiles', description: 'The files of a task of a benchmark.' })
export type BenchmarkTaskFiles = z.infer<typeof BenchmarkTaskFiles>

const TASK = '/api/orgs/{org}/benchmarks/{datasetOrg}/{dataset}/tasks/{taskOrg}/{task}'

export const listBenchmarkTaskFiles = endpoint({
  id: 'listBenchmarkTaskFiles',
  method: 'GET',
  path: `${TASK}/files`,
  summary: 'List the files of a task as they were checked',
  access: 'read',
  answers: { 200: BenchmarkTaskFiles },
})

export const readBenchmarkTaskFile = endpoint({
  id: 'readBenchmarkTaskFile',
  method: 'GET',
  path: `${TASK}/files/{path}`,
  summary: 'Download one file of a task of a benchmark',
  access: 'read',
  download: true,
  answers: { 200: null },
})

export const removeBenchmark = endpoint({
  id: 'removeBenchmark',
  method: 'DELETE',
  path: '/api/orgs/{org}/benchmarks/{datasetOrg}/{dataset}',
  summary: 'Remove a benchmark; its comparisons remain',
  access: 'write',
  answers: { 204: null },
})
