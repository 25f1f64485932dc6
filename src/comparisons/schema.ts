import { z } from 'zod'
import { BenchmarkTask } from '../benchmarks/schema.ts'
import { Catalog } from '../catalog/schema.ts'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery, queryInteger } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'
import { codeHostUnavailable } from '../repos/schema.ts'
import { Quote } from './costs/schema.ts'
import {
  ApprovedTask,
  BenchmarkQuoteRequest,
  Comparison,
  ComparisonMatrix,
  ComparisonTrial,
  LocatedTrial,
  NewBenchmarkComparison,
  NewRepositoryComparison,
  RepositoryQuoteRequest,
  TrialCall,
  TrialChange,
  TrialClass,
  TrialState,
  TrialWithAttempts,
} from './shapes/schema.ts'
import { ComparisonDiff, ComparisonPair, ComparisonPairWithTasks } from './statistics/schema.ts'
import { FailureGroup } from './trials/failures/schema.ts'

export const benchmarkNotAdded = {
  code: 'benchmark_not_added',
  status: 404,
  title: 'Benchmark not added to this workspace',
  meaning: 'Add the dataset first. Adding downloads and checks it.',
} as const satisfies ProblemKind

export const idReused = {
  code: 'id_reused',
  status: 409,
  title: 'Comparison id already used',
  meaning: 'An id identifies one request in one scope. Repeat the same request, or choose a new id.',
} as const satisfies ProblemKind

export const comparisonNotRunning = {
  code: 'comparison_not_running',
  status: 409,
  title: 'Comparison is not running',
  meaning: 'Only a running comparison can be paused. A submission takes seconds: repeat the request after it.',
} as const satisfies ProblemKind

export const trialNotScored = {
  code: 'trial_not_scored',
  status: 409,
  title: 'Trial has no result',
  meaning: 'Only a trial that passed or failed can be voided, and only once.',
} as const satisfies ProblemKind

export const noSharedTasks = {
  code: 'no_shared_tasks',
  status: 422,
  title: 'No task in common',
  meaning: 'Settings are compared on tasks that both have a result for. Wait for results, or choose other settings.',
} as const satisfies ProblemKind

const ID = '{comparisonId}'
const TRIAL = '{trialId}'
const exampleId = '00000000-0000-4000-8000-000000000000'
const exampleModels = [{ catalogId: 'reference', credentialId: exampleId, harnesses: ['oracle', 'nop'] }]

const listQuery = z.object({
  limit: queryInteger().min(1).max(200).optional().describe('Default: 50 with a cursor, 1,000 without.'),
  cursor: pageQuery().shape.cursor,
})

const { limit } = pageQuery().shape

const callQuery = z.object({
  limit,
  cursor: z.uuid('Not a cursor of this list').optional().describe('`nextCursor` of the previous page.'),
})

const trialQuery = z.object({
  limit,
  cursor: z
    .string()
    .regex(/^\d{1,6}$/, 'Not a cursor of this list')
    .transform(Number)
    .optional()
    .describe('`nextCursor` of the previous page.'),
  setting: z.string().max(500).optional().describe('Only trials of this setting.'),
  task: z.string().max(500).optional().describe('Only trials of the task with this name.'),
  state: TrialState.optional().describe('Only trials in this state.'),
  class: TrialClass.optional().describe('Only trials that ended in this class.'),
})

const ResumeRequest = z.strictObject({
  budgetUsd: z.number().min(0).max(1_000_000).optional(),
  credentials: z
    .record(z.uuid(), z.uuid())
    .optional()
    .describe('Replacement credentials: old id to new id, both of the same kind and provider.'),
})

const resume = {
  method: 'POST',
  summary: 'Resume a comparison that stopped',
  access: 'write',
  body: ResumeRequest,
  bodyOptional: true,
  example: {},
  answers: { 202: Comparison },
} as const

const lifecycleEndpoints = (prefix: `/${string}`, suffix: string) =>
  ({
    resume: endpoint({
      ...resume,
      id: `resumeComparison${suffix}`,
      path: `${prefix}/evaluations/comparisons/${ID}/resume`,
    }),
    /** Alias of `resume` with a shorter path. */
    resumeShort: endpoint({
      ...resume,
      id: `resumeComparison${suffix}Short`,
      path: `${prefix}/comparisons/${ID}/resume`,
    }),
    pause: endpoint({
      id: `pauseComparison${suffix}`,
      method: 'POST',
      path: `${prefix}/evaluations/comparisons/${ID}/pause`,
      summary: 'Pause a comparison: running trials end, no other one starts; idempotent',
      access: 'write',
      answers: { 202: Comparison },
      problems: [comparisonNotRunning],
    }),
    cancel: endpoint({
      id: `cancelComparison${suffix}`,
      method: 'POST',
      path: `${prefix}/evaluations/comparisons/${ID}/cancel`,
      summary: 'Cancel all open trials of a comparison; idempotent',
      access: 'write',
      answers: { 202: Comparison },
    }),
  }) as const

const listEndpoints = (prefix: `/${string}`, suffix: string) =>
  ({
    list: endpoint({
      id: `listComparisons${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations`,
      summary: 'List the comparisons, newest first',
      access: 'read',
      query: listQuery,
      answers: { 200: z.object({ evaluations: z.array(Comparison), nextCursor: z.string().nullable() }) },
    }),
    catalog: endpoint({
      id: `readCatalog${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/catalog`,
      summary: 'List the models, harnesses and sandboxes that can be chosen',
      access: 'read',
      answers: { 200: Catalog },
    }),
  }) as const

export const listWorkspaceComparisons = endpoint({
  id: 'listComparisons',
  method: 'GET',
  path: '/api/orgs/{org}/evaluations',
  summary: 'List the comparisons of all benchmarks and repositories, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ evaluations: z.array(Comparison), nextCursor: z.string().nullable() }) },
})

const statusEndpoints = (prefix: `/${string}`, suffix: string) =>
  ({
    read: endpoint({
      id: `readComparison${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}`,
      summary: 'Read the status of a comparison',
      access: 'read',
      answers: { 200: Comparison },
    }),
    matrix: endpoint({
      id: `readComparisonMatrix${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/matrix`,
      summary: 'Read the tasks × settings matrix, one letter per trial',
      access: 'read',
      answers: { 200: ComparisonMatrix },
    }),
    failures: endpoint({
      id: `listComparisonFailures${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/failures`,
      summary: 'Group the trials that failed or have no result by class and message',
      access: 'read',
      answers: { 200: z.object({ groups: z.array(FailureGroup) }) },
    }),
    events: endpoint({
      id: `watchComparison${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/events`,
      summary: 'Stream the events of a comparison',
      access: 'read',
      answers: { 200: null },
      events: { status: Comparison, trial: TrialChange, end: z.object({ state: z.string() }) },
    }),
  }) as const

const pairEndpoints = (prefix: `/${string}`, suffix: string) =>
  ({
    pairs: endpoint({
      id: `listComparisonPairs${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/pairs`,
      summary: 'Compare the settings of a comparison in pairs',
      access: 'read',
      query: z.object({
        baseline: z.string().max(500).optional().describe('Compare every other setting with this one only.'),
      }),
      answers: { 200: z.object({ pairs: z.array(ComparisonPair) }) },
      problems: [noSharedTasks],
    }),
    pair: endpoint({
      id: `readComparisonPair${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/pairs/{a}/{b}`,
      summary: 'Compare two settings, with the outcome of each task',
      access: 'read',
      answers: { 200: ComparisonPairWithTasks },
      problems: [noSharedTasks],
    }),
    diff: endpoint({
      id: `diffComparison${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/diff/{baseId}`,
      summary: 'Compare a comparison with an earlier one of the same scope, setting by setting',
      access: 'read',
      answers: { 200: ComparisonDiff },
      problems: [noSharedTasks],
    }),
  }) as const

const trialEndpoints = (prefix: `/${string}`, suffix: string) =>
  ({
    trials: endpoint({
      id: `listTrials${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials`,
      summary: 'List the trials in plan order',
      access: 'read',
      query: trialQuery,
      answers: { 200: z.object({ trials: z.array(ComparisonTrial), nextCursor: z.string().nullable() }) },
    }),
    trial: endpoint({
      id: `readTrial${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}`,
      summary: 'Read a trial, including attempts that failed because of the infrastructure',
      access: 'read',
      answers: { 200: TrialWithAttempts },
    }),
    calls: endpoint({
      id: `listTrialCalls${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}/calls`,
      summary: 'List the model calls of a trial',
      access: 'read',
      query: callQuery,
      answers: { 200: z.object({ calls: z.array(TrialCall), nextCursor: z.string().nullable() }) },
    }),
    artifact: endpoint({
      id: `readTrialArtifact${suffix}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}/artifacts/{artifact}`,
      summary: 'Download an artifact of a trial',
      access: 'read',
      answers: { 200: null },
      download: true,
    }),
    void: endpoint({
      id: `voidTrial${suffix}`,
      method: 'POST',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}/void`,
      summary: 'Exclude a scored trial from the results, with a recorded reason',
      access: 'admin',
      body: z.strictObject({ reason: z.string().trim().min(1).max(1000) }),
      example: { reason: 'The machine was overloaded.' },
      answers: { 200: ComparisonTrial },
      problems: [trialNotScored],
    }),
  }) as const

export const readTrialById = endpoint({
  id: 'readTrial',
  method: 'GET',
  path: `/api/orgs/{org}/trials/${TRIAL}`,
  summary: 'Read a trial by its id alone, with the comparison it belongs to',
  access: 'read',
  answers: { 200: LocatedTrial },
})

/** The parts of the contract that differ between scopes. */
type ScopeContract<CreateBody extends z.ZodObject, QuoteBody extends z.ZodObject, Task extends z.ZodType> = {
  createBody: CreateBody
  quoteBody: QuoteBody
  task: Task
  /** Example of the additional fields of the bodies. */
  example: Record<string, unknown>
  /** Problems when the scope does not exist. */
  missing: readonly ProblemKind[]
  /** Problems of a create request that cannot connect a repository which is not connected yet. */
  unconnectable: readonly ProblemKind[]
}

const createEndpoints = <P extends string, C extends z.ZodObject, Q extends z.ZodObject, T extends z.ZodType>(
  scopePath: P,
  suffix: string,
  { createBody, quoteBody, task, example, missing, unconnectable }: ScopeContract<C, Q, T>,
) =>
  ({
    create: endpoint({
      id: `createComparison${suffix}`,
      method: 'POST',
      path: `/api/orgs/{org}/${scopePath}/evaluations/comparisons`,
      summary: 'Create a comparison; repeating the request returns the same comparison',
      access: 'write',
      body: createBody,
      example: { id: exampleId, ...example, models: exampleModels, sandbox: 'local', sandboxCredentialId: exampleId },
      answers: { 202: Comparison },
      problems: [...missing, ...unconnectable, idReused],
    }),
    quote: endpoint({
      id: `quoteComparison${suffix}`,
      method: 'POST',
      path: `/api/orgs/{org}/${scopePath}/evaluations/comparisons/quote`,
      summary: 'Estimate cost and statistical power of a comparison without creating it',
      access: 'read',
      body: quoteBody,
      example: { ...example, models: exampleModels },
      answers: { 200: Quote },
      problems: missing,
    }),
    options: endpoint({
      id: `listComparisonOptions${suffix}`,
      method: 'GET',
      path: `/api/orgs/{org}/${scopePath}/evaluations/options`,
      summary: 'List the tasks that a comparison can run on',
      access: 'read',
      answers: { 200: z.object({ tasks: z.array(task) }) },
      problems: missing,
    }),
  }) as const

/** Endpoints that are the same in each scope. `prefix` is the path of the scope; `suffix` makes operation ids unique. */
const comparisonEndpoints = (prefix: `/${string}`, suffix: string) => ({
  ...listEndpoints(prefix, suffix),
  ...lifecycleEndpoints(prefix, suffix),
  ...statusEndpoints(prefix, suffix),
  ...pairEndpoints(prefix, suffix),
  ...trialEndpoints(prefix, suffix),
})

export type ComparisonEndpoints = ReturnType<typeof comparisonEndpoints>

const BENCHMARK = 'benchmarks/{datasetOrg}/{dataset}'
const REPOSITORY = 'repos/{owner}/{name}'

export const inBenchmark = {
  ...comparisonEndpoints(`/api/orgs/{org}/${BENCHMARK}`, 'OnBenchmark'),
  ...createEndpoints(BENCHMARK, 'OnBenchmark', {
    createBody: NewBenchmarkComparison,
    quoteBody: BenchmarkQuoteRequest,
    task: BenchmarkTask,
    example: {},
    missing: [benchmarkNotAdded],
    unconnectable: [],
  }),
}

export const inRepository = {
  ...comparisonEndpoints(`/api/orgs/{org}/${REPOSITORY}`, 'OnRepository'),
  ...createEndpoints(REPOSITORY, 'OnRepository', {
    createBody: NewRepositoryComparison,
    quoteBody: RepositoryQuoteRequest,
    task: ApprovedTask,
    example: { tasks: [{ runId: `batch-${exampleId}`, taskId: 'fix-the-parser' }] },
    missing: [],
    unconnectable: [codeHostUnavailable],
  }),
}
