import { z } from 'zod'
import { BenchmarkTask } from '../benchmarks/schema.ts'
import { Catalog } from '../catalog/schema.ts'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery, queryInteger } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'
import { codeHostUnavailable } from '../repos/schema.ts'
import {
  ApprovedTask,
  Comparison,
  Matrix,
  NewComparison,
  NewRepositoryComparison,
  Quote,
  QuoteRequest,
  RepositoryQuoteRequest,
  Trial,
  TrialCall,
  TrialChange,
  TrialClass,
  TrialState,
  TrialWithAttempts,
} from './shapes/schema.ts'

export const benchmarkNotAdded = {
  code: 'benchmark_not_added',
  status: 404,
  title: 'This benchmark is not in the workspace',
  meaning: 'Add the dataset first; it is downloaded and checked then.',
} as const satisfies ProblemKind

export const idReused = {
  code: 'id_reused',
  status: 409,
  title: 'This id stands for another comparison',
  meaning: 'An id stands for one request in one scope. Send the same request again, or a new id.',
} as const satisfies ProblemKind

export const trialNotScored = {
  code: 'trial_not_scored',
  status: 409,
  title: 'This trial has no result',
  meaning: 'Only a trial that passed or failed can be voided, and only once.',
} as const satisfies ProblemKind

const ID = '{comparisonId}'
const TRIAL = '{trialId}'
const unknownId = '00000000-0000-4000-8000-000000000000'
const exampleModels = [{ catalogId: 'reference', credentialId: unknownId, harnesses: ['oracle', 'nop'] }]

export const listQuery = z.object({
  limit: queryInteger().min(1).max(200).optional().describe('Without it and a cursor: up to 1,000.'),
  cursor: pageQuery().shape.cursor,
})

const callQuery = z.object({
  limit: queryInteger().min(1).max(200).default(50),
  cursor: z.uuid('This is not a cursor of this list.').optional(),
})

const trialQuery = z.object({
  limit: queryInteger().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,6}$/, 'This is not a cursor of this list.')
    .transform(Number)
    .optional(),
  setting: z.string().max(500).optional(),
  task: z.string().max(500).optional(),
  state: TrialState.optional(),
  class: TrialClass.optional(),
})

const ResumeRequest = z.strictObject({
  budgetUsd: z.number().min(0).max(1_000_000).optional(),
  credentials: z
    .record(z.uuid(), z.uuid())
    .optional()
    .describe('The new one for an old one, both of the same provider.'),
})

const resume = {
  method: 'POST',
  summary: 'Go on with a comparison that stopped, for whatever reason',
  access: 'write',
  body: ResumeRequest,
  bodyOptional: true,
  example: {},
  answers: { 202: Comparison },
} as const

const going = (prefix: `/${string}`, word: string) =>
  ({
    resume: endpoint({
      ...resume,
      id: `resumeComparison${word}`,
      path: `${prefix}/evaluations/comparisons/${ID}/resume`,
    }),
    resumeShort: endpoint({
      ...resume,
      id: `resumeComparison${word}Short`,
      path: `${prefix}/comparisons/${ID}/resume`,
    }),
    cancel: endpoint({
      id: `cancelComparison${word}`,
      method: 'POST',
      path: `${prefix}/evaluations/comparisons/${ID}/cancel`,
      summary: 'Cancel what has not ended; twice is as good as once',
      access: 'write',
      answers: { 202: Comparison },
    }),
  }) as const

const choosing = (prefix: `/${string}`, word: string) =>
  ({
    list: endpoint({
      id: `listComparisons${word}`,
      method: 'GET',
      path: `${prefix}/evaluations`,
      summary: 'List the comparisons, newest first',
      access: 'read',
      query: listQuery,
      answers: { 200: z.object({ evaluations: z.array(Comparison), nextCursor: z.string().nullable() }) },
    }),
    catalog: endpoint({
      id: `readCatalog${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/catalog`,
      summary: 'The models, harnesses and sandboxes to choose from',
      access: 'read',
      answers: { 200: Catalog },
    }),
  }) as const

const watching = (prefix: `/${string}`, word: string) =>
  ({
    read: endpoint({
      id: `readComparison${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}`,
      summary: 'Read how a comparison stands',
      access: 'read',
      answers: { 200: Comparison },
    }),
    matrix: endpoint({
      id: `readComparisonMatrix${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/matrix`,
      summary: 'Tasks by settings, a letter for each trial',
      access: 'read',
      answers: { 200: Matrix },
    }),
    events: endpoint({
      id: `watchComparison${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/events`,
      summary: 'Follow a comparison as it goes',
      access: 'read',
      answers: { 200: null },
      events: { status: Comparison, trial: TrialChange, end: z.object({ state: z.string() }) },
    }),
  }) as const

const inTrials = (prefix: `/${string}`, word: string) =>
  ({
    trials: endpoint({
      id: `listTrials${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials`,
      summary: 'List the trials, in the order in which they were planned',
      access: 'read',
      query: trialQuery,
      answers: { 200: z.object({ trials: z.array(Trial), nextCursor: z.string().nullable() }) },
    }),
    trial: endpoint({
      id: `readTrial${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}`,
      summary: 'Read a trial, with what was left of attempts that the infrastructure spoiled',
      access: 'read',
      answers: { 200: TrialWithAttempts },
    }),
    calls: endpoint({
      id: `listTrialCalls${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}/calls`,
      summary: 'List the calls that a trial made to its model',
      access: 'read',
      query: callQuery,
      answers: { 200: z.object({ calls: z.array(TrialCall), nextCursor: z.string().nullable() }) },
    }),
    artifact: endpoint({
      id: `readTrialArtifact${word}`,
      method: 'GET',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}/artifacts/{artifact}`,
      summary: 'Download an artifact of a trial',
      access: 'read',
      answers: { 200: null },
      download: true,
    }),
    void: endpoint({
      id: `voidTrial${word}`,
      method: 'POST',
      path: `${prefix}/evaluations/comparisons/${ID}/trials/${TRIAL}/void`,
      summary: 'Take a scored trial out of the results, for a reason that is kept and counted',
      access: 'admin',
      body: z.strictObject({ reason: z.string().trim().min(1).max(1000) }),
      example: { reason: 'The machine was overloaded.' },
      answers: { 200: Trial },
      problems: [trialNotScored],
    }),
  }) as const

/** What differs between scopes: which tasks there are, and how they are asked for. */
type Choice<Wish extends z.ZodObject, Question extends z.ZodObject, Task extends z.ZodType> = {
  wish: Wish
  question: Question
  task: Task
  /** A choice of tasks, where one is made. */
  example: Record<string, unknown>
  /** Where there is no such place. */
  missing: readonly ProblemKind[]
  /** Where a write cannot make it one. */
  unmade: readonly ProblemKind[]
}

const starting = <P extends string, W extends z.ZodObject, Q extends z.ZodObject, T extends z.ZodType>(
  place: P,
  word: string,
  { wish, question, task, example, missing, unmade }: Choice<W, Q, T>,
) =>
  ({
    create: endpoint({
      id: `createComparison${word}`,
      method: 'POST',
      path: `/api/orgs/{org}/${place}/evaluations/comparisons`,
      summary: 'Start a comparison; the same request again is the same comparison',
      access: 'write',
      body: wish,
      example: { id: unknownId, ...example, models: exampleModels, sandbox: 'local', sandboxCredentialId: unknownId },
      answers: { 202: Comparison },
      problems: [...missing, ...unmade, idReused],
    }),
    quote: endpoint({
      id: `quoteComparison${word}`,
      method: 'POST',
      path: `/api/orgs/{org}/${place}/evaluations/comparisons/quote`,
      summary: 'What a comparison would cost, and what it could show; nothing is started',
      access: 'read',
      body: question,
      example: { ...example, models: exampleModels },
      answers: { 200: Quote },
      problems: missing,
    }),
    options: endpoint({
      id: `listComparisonOptions${word}`,
      method: 'GET',
      path: `/api/orgs/{org}/${place}/evaluations/options`,
      summary: 'The tasks that a comparison works on, or chooses from',
      access: 'read',
      answers: { 200: z.object({ tasks: z.array(task) }) },
      problems: missing,
    }),
  }) as const

/**
 * The same operations in each scope. `prefix` is its address, with the parameters that name it; `word` makes the
 * operations' names its own.
 */
const comparisonEndpoints = (prefix: `/${string}`, word: string) => ({
  ...choosing(prefix, word),
  ...going(prefix, word),
  ...watching(prefix, word),
  ...inTrials(prefix, word),
})

export type ComparisonEndpoints = ReturnType<typeof comparisonEndpoints>

const BENCHMARK = 'benchmarks/{datasetOrg}/{dataset}'
const REPOSITORY = 'repos/{owner}/{name}'

export const inBenchmark = {
  ...comparisonEndpoints(`/api/orgs/{org}/${BENCHMARK}`, 'OnBenchmark'),
  ...starting(BENCHMARK, 'OnBenchmark', {
    ...{ wish: NewComparison, question: QuoteRequest, task: BenchmarkTask },
    ...{ example: {}, missing: [benchmarkNotAdded], unmade: [] },
  }),
}

export const inRepository = {
  ...comparisonEndpoints(`/api/orgs/{org}/${REPOSITORY}`, 'OnRepository'),
  ...starting(REPOSITORY, 'OnRepository', {
    ...{ wish: NewRepositoryComparison, question: RepositoryQuoteRequest, task: ApprovedTask },
    example: { tasks: [{ runId: `batch-${unknownId}`, taskId: 'fix-the-parser' }] },
    ...{ missing: [], unmade: [codeHostUnavailable] },
  }),
}
