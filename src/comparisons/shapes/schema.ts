import { z } from 'zod'
import { BatchTask } from '../../batches/schema.ts'
import { ConfigurationRef, NamedConfiguration } from '../../configurations/schema.ts'
import { ComparisonAnswer, CostInterval, SettingRank } from '../statistics/schema.ts'

const time = z.iso.datetime()
const usd = z.number().min(0)
const count = z.number().int().min(0)
const uuid = z.uuid().toLowerCase()

const MODELS_MAX = 12
const HARNESSES_MAX = 16
const TASKS_MAX = 5000
const ATTEMPTS_MAX = 10
export const TRIALS_MAX = 100_000

const TRIAL_STATES = ['queued', 'running', 'passed', 'failed', 'errored', 'canceled'] as const
export const TrialState = z
  .enum(TRIAL_STATES)
  .meta({ id: 'TrialState', description: 'State of a trial. `passed` and `failed` are scored.' })
export type TrialState = z.infer<typeof TrialState>

const SCORED_CLASSES = ['verified', 'agent_timeout', 'agent_exit', 'budget_stop', 'refusal', 'limit'] as const
const UNSCORED_CLASSES = ['provider_error', 'sandbox_error', 'verifier_error', 'operator_error'] as const
export const TrialClass = z
  .enum([...SCORED_CLASSES, ...UNSCORED_CLASSES])
  .describe('How the trial ended. The last four classes are not scored: neither passed nor failed.')
  .meta({ id: 'TrialClass' })
export type TrialClass = z.infer<typeof TrialClass>

/** Bounds of the factor by which time limits can be changed. */
const TIMEOUT_MULTIPLIER_MIN = 0.1
const TIMEOUT_MULTIPLIER_MAX = 100

const ModelChoice = z
  .strictObject({
    catalogId: z.string().min(1).max(200),
    credentialId: uuid,
    harnesses: z.array(z.string().min(1).max(100)).min(1).max(HARNESSES_MAX),
    reasoningLevel: z.string().min(1).max(50).optional().describe('Default: the default level of the model.'),
    configuration: ConfigurationRef.optional(),
    timeoutMultiplier: z
      .number()
      .min(TIMEOUT_MULTIPLIER_MIN)
      .max(TIMEOUT_MULTIPLIER_MAX)
      .optional()
      .describe("Factor of the tasks' time limits, for slow machines. A factor other than 1 is part of the setting."),
  })
  .meta({ id: 'ModelChoice', description: 'A model with its credential, harnesses and reasoning level.' })
export type ModelChoice = z.infer<typeof ModelChoice>

export const NewComparison = z.strictObject({
  id: uuid.describe('Chosen by the client. Repeating a request with the same id returns the same comparison.'),
  models: z.array(ModelChoice).min(1).max(MODELS_MAX),
  attempts: z.number().int().min(1).max(ATTEMPTS_MAX).default(1).describe('Number of trials per task and setting.'),
  skipCompleted: z.boolean().default(false).describe('Reuse scored trials of earlier comparisons.'),
  sandbox: z.string().min(1).max(100),
  sandboxCredentialId: uuid,
  budgetUsd: usd
    .max(1_000_000)
    .optional()
    .describe('Hard limit on new spend: settled and reserved costs together never exceed it.'),
  trialBudgetUsd: usd
    .max(1_000_000)
    .optional()
    .describe('Limit per trial. A trial that reaches it is stopped and verified as it is.'),
  concurrency: z
    .number()
    .int()
    .min(1)
    .max(10_000)
    .optional()
    .describe('Maximum number of trials that run at the same time.'),
})
export type NewComparison = z.infer<typeof NewComparison>

/** The body of a create request, in which the fields that a quote does not need are optional. */
export const QuoteRequest = NewComparison.partial({ id: true, sandbox: true, sandboxCredentialId: true })
export type QuoteRequest = z.infer<typeof QuoteRequest>

/** Identifies a task of a repository by its batch and task id. */
const TaskChoice = z
  .strictObject({
    runId: z.string().min(1).max(100).toLowerCase(),
    taskId: z.string().min(1).max(100),
  })
  .meta({ id: 'TaskChoice', description: 'A task of a repository, by batch and task id.' })
export type TaskChoice = z.infer<typeof TaskChoice>

const taskChoices = { tasks: z.array(TaskChoice).min(1).max(TASKS_MAX).describe('Approved tasks, each at most once.') }

const taskNames = {
  taskNames: z
    .array(z.string().min(1).max(300))
    .min(1)
    .max(TASKS_MAX)
    .optional()
    .describe('Names of the tasks to run, each at most once. Default: all tasks of the benchmark.'),
}

export const NewBenchmarkComparison = NewComparison.extend(taskNames).meta({
  id: 'NewBenchmarkComparison',
  description: 'A comparison on a benchmark.',
})
export const BenchmarkQuoteRequest = QuoteRequest.extend(taskNames).meta({
  id: 'BenchmarkQuoteRequest',
  description: 'A comparison on a benchmark, to be quoted before it is created.',
})

export const NewRepositoryComparison = NewComparison.extend(taskChoices).meta({
  id: 'NewRepositoryComparison',
  description: 'A comparison on tasks of a repository.',
})
export const RepositoryQuoteRequest = QuoteRequest.extend(taskChoices).meta({
  id: 'RepositoryQuoteRequest',
  description: 'A comparison on tasks of a repository, to be quoted before it is created.',
})

/** An approved task of a repository, as offered for a comparison. */
export const ApprovedTask = BatchTask.pick({ taskId: true, title: true, difficulty: true, pullRequest: true })
  .extend({ runId: z.string(), digest: z.string() })
  .meta({ id: 'ApprovedTask', description: 'An approved task of a repository.' })

const TrialStateCounts = z
  .object({
    total: count,
    queued: count,
    running: count,
    passed: count,
    failed: count,
    errored: count,
    canceled: count,
    reused: count.describe('How many of these are reused from earlier comparisons.'),
  })
  .meta({ id: 'TrialCounts', description: 'Number of trials by state. The six states add up to `total`.' })
export type TrialStateCounts = z.infer<typeof TrialStateCounts>

const Interval = z.object({
  low: z.number(),
  high: z.number(),
  level: z.number(),
  method: z.string(),
  tasks: count,
  trials: count,
})

const NOT_IN_LISTS = 'Absent in lists, in the answer to a create request, and in events before the comparison ends.'

const Stats = z
  .object({
    passAt1: z.number().nullable().describe('Mean over tasks of the share of scored trials that passed, in percent.'),
    ci95: Interval.nullable().describe('In percent. Null below five tasks.'),
    costCi95: CostInterval.nullable()
      .optional()
      .describe(`Interval of costPerTaskUsd. Null below five tasks or if a cost is unknown. ${NOT_IN_LISTS}`),
    rank: SettingRank.nullable().optional().describe(`Range of ranks by accuracy. ${NOT_IN_LISTS}`),
    frontierProbability: z
      .number()
      .nullable()
      .optional()
      .describe(`How often the setting is on the frontier when tasks are resampled. ${NOT_IN_LISTS}`),
    methods: z.object({ rank: z.string(), frontierProbability: z.string() }).optional(),
  })
  .meta({ id: 'SettingStats', description: 'Statistics of a setting. See docs/statistics.md.' })

export const ComparisonSetting = z
  .object({
    id: z
      .string()
      .describe(
        '`<catalogId>|<harness>|<reasoningLevel>`, followed by `|<name>@<version>` if it has a configuration, and by `|timeouts*<factor>` if its time limits are changed',
      ),
    model: z.object({ catalogId: z.string(), name: z.string(), label: z.string() }),
    harness: z.string(),
    harnessVersion: z.string(),
    reasoningLevel: z.string(),
    provider: z.string(),
    custom: z.boolean(),
    configuration: NamedConfiguration.optional().describe('Absent if the setting has none.'),
    timeoutMultiplier: z.number().optional().describe("Factor of the tasks' time limits. Absent if it is 1."),
    isolation: z.string().nullable(),
    tasks: count.describe('Number of tasks with a scored trial.'),
    passed: count.describe('How many of these passed in their first scored trial.'),
    accuracy: z.number().nullable(),
    costPerTaskUsd: usd.nullable(),
    totalCostUsd: usd
      .nullable()
      .describe('Cost of the first scored trial of each task, including its retries and reused trials.'),
    costUsd: usd.describe(
      'New spend on trials of this setting, including retries and unscored trials. The settings add up to the total.',
    ),
    pendingUsd: usd.describe('Reserved for running calls. Not included in any cost.'),
    stats: Stats,
    trials: TrialStateCounts,
  })
  .meta({ id: 'ComparisonSetting', description: 'A setting of a comparison and its current results.' })
export type ComparisonSetting = z.infer<typeof ComparisonSetting>

export const SubmissionError = z.object({ code: z.string(), message: z.string(), retryable: z.boolean(), at: time })
export type SubmissionError = z.infer<typeof SubmissionError>

export const ComparisonPause = z.object({
  reason: z.enum(['budget', 'credential', 'sandbox', 'requested']),
  message: z.string(),
  at: time,
})
export type ComparisonPause = z.infer<typeof ComparisonPause>

const Scope = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('benchmark'), datasetOrg: z.string(), dataset: z.string() }),
  z.object({ kind: z.literal('repository'), owner: z.string(), name: z.string() }),
])

export const Comparison = z
  .object({
    id: z.uuid(),
    scope: Scope,
    state: z.enum(['submitting', 'submission_failed', 'running', 'paused', 'completed', 'canceled']),
    submissionError: SubmissionError.optional().describe(
      'Present if the submission failed. Resume the comparison to retry.',
    ),
    pause: ComparisonPause.optional(),
    createdAt: time,
    submittedAt: time.nullable(),
    finishedAt: time.nullable(),
    sandbox: z.string(),
    skipCompleted: z.boolean(),
    attempts: count,
    budgetUsd: usd.nullable(),
    trialBudgetUsd: usd.nullable(),
    concurrency: count.nullable(),
    frozen: z.object({ digest: z.string(), tasks: count }).nullable(),
    trials: TrialStateCounts,
    costUsd: usd.describe(
      'New spend so far: cost of all calls of all trials, including retries. Equals the sum over trials that are not reused.',
    ),
    pendingUsd: usd.describe('Reserved for running calls. costUsd + pendingUsd never exceeds budgetUsd.'),
    projectedCostUsd: z
      .object({ low: usd, high: usd })
      .nullable()
      .describe('Projected new spend at the end, extrapolated from finished trials.'),
    etaSeconds: count.nullable(),
    frontier: z.array(z.string()),
    settings: z.array(ComparisonSetting),
    answer: ComparisonAnswer.optional().describe(NOT_IN_LISTS),
  })
  .meta({ id: 'Comparison', description: 'A comparison and its current results.' })
export type Comparison = z.infer<typeof Comparison>

export const TrialArtifact = z
  .object({ name: z.string(), mediaType: z.string(), bytes: count })
  .meta({ id: 'TrialArtifact', description: 'A file that was collected from a trial.' })
export type TrialArtifact = z.infer<typeof TrialArtifact>

const seconds = z.number().min(0).nullable()

export const Timings = z.object({
  queue: seconds,
  prepare: seconds,
  agent: seconds,
  verify: seconds,
  total: seconds,
})

export const Usage = z.object({ input: count, cacheRead: count, cacheWrite: count, output: count, reasoning: count })

export const TrialCall = z
  .object({
    id: z.uuid(),
    at: time,
    protocol: z.string(),
    model: z.string().nullable().describe('The model that answered, as named in the response.'),
    askedFor: z.string().nullable().describe("Name of an auxiliary model that was mapped to the trial's model."),
    outcome: z
      .enum(['open', 'succeeded', 'failed', 'cut', 'lost'])
      .describe('`cut`: the answer broke off. `lost`: the gateway of the call died.'),
    status: z.number().int().nullable().describe('HTTP status of the last try.'),
    failure: z.string().nullable(),
    message: z.string().nullable().describe("The provider's message about a failed call, without secrets."),
    tries: count,
    usage: Usage,
    costUsd: usd.nullable().describe('Null while the call is running and if its price is unknown.'),
    pendingUsd: usd.describe('Reserved while the call is running.'),
    outputLimit: count.nullable().describe('Maximum output tokens, if a budget limited the response.'),
    costSource: z
      .enum(['metered', 'estimated', 'reserved', 'unknown'])
      .describe(
        '`metered`: reported usage. `estimated`: from the bytes transferred. `reserved`: the maximum cost of the call.',
      ),
    firstByteMs: count.nullable(),
    totalMs: count.nullable(),
    levelMismatch: z.boolean().describe("The request asked for a reasoning level other than the setting's."),
    bodies: z.boolean().describe('Request and response bodies are stored.'),
  })
  .meta({ id: 'TrialCall', description: 'A model call of a trial, as recorded by the gateway.' })
export type TrialCall = z.infer<typeof TrialCall>

/** An attempt that failed because of the infrastructure and was retried. */
const FailedAttempt = z.object({ class: TrialClass, error: z.string(), at: time })

export const ComparisonTrial = z
  .object({
    id: z.uuid(),
    task: z.object({
      name: z.string(),
      digest: z.string(),
      runId: z.string().optional().describe('Batch of the task. Only in comparisons of a repository.'),
      taskId: z.string().optional(),
    }),
    settingId: z.string(),
    attempt: z.number().int().min(1),
    state: TrialState,
    class: TrialClass.nullable(),
    reward: z.number().nullable(),
    rewards: z.record(z.string(), z.number()),
    reusedFrom: z
      .uuid()
      .optional()
      .describe(
        'Id of the earlier trial. It can be read, with its calls and artifacts, under the trials of this comparison.',
      ),
    timings: Timings,
    usage: Usage.nullable(),
    costUsd: usd.nullable().describe('Cost so far of the calls of all attempts.'),
    retriesCostUsd: usd.describe('The part of costUsd that was spent before the last attempt.'),
    pendingUsd: usd.describe('Reserved for running calls. Not included in any cost.'),
    costSource: z.string().nullable(),
    isolation: z.string().nullable(),
    verifyMode: z.string().nullable(),
    retries: count,
    artifacts: z.array(TrialArtifact),
    error: z.string().optional(),
    explanation: z
      .string()
      .optional()
      .describe(
        'Why the trial has no full score, in one sentence. Absent before the trial ends and after a full score.',
      ),
    droppedChanges: z
      .array(z.string())
      .optional()
      .describe(
        'Files of the configuration that the agent changed. These changes were dropped before the verification.',
      ),
    failedTests: z
      .array(z.string())
      .optional()
      .describe('Names of tests that did not pass, as far as the verifier printed them.'),
    voided: z.object({ reason: z.string(), at: time }).optional(),
  })
  .meta({ id: 'Trial', description: 'One run of one harness on one task.' })
export type ComparisonTrial = z.infer<typeof ComparisonTrial>

export const TrialWithAttempts = ComparisonTrial.extend({ spoiled: z.array(FailedAttempt) }).meta({
  id: 'TrialWithAttempts',
  description: 'A trial, including attempts that failed because of the infrastructure.',
})
export type TrialWithAttempts = z.infer<typeof TrialWithAttempts>

export const LocatedTrial = TrialWithAttempts.extend({
  comparison: z.object({ id: z.uuid(), scope: Scope }).describe('The comparison that the trial belongs to.'),
  previous: z.uuid().nullable().describe('The same setting and attempt on the task before. Null for the first task.'),
  next: z.uuid().nullable().describe('The same setting and attempt on the task after. Null for the last task.'),
}).meta({ id: 'LocatedTrial', description: 'A trial with the comparison that it belongs to and its neighbours.' })
export type LocatedTrial = z.infer<typeof LocatedTrial>

export const TrialChange = z
  .object({
    id: z.uuid(),
    task: z.string(),
    settingId: z.string(),
    attempt: z.number().int(),
    state: TrialState,
    class: TrialClass.nullable(),
    reward: z.number().nullable(),
  })
  .meta({ id: 'TrialChange', description: 'A trial whose state has changed.' })
export type TrialChange = z.infer<typeof TrialChange>

export const ComparisonMatrix = z
  .object({
    settings: z.array(z.string()),
    attempts: count,
    tasks: z.array(
      z.object({
        name: z.string(),
        cells: z
          .string()
          .describe(
            'One letter per attempt, setting by setting: the initial of its state (q r p f e c), or - if there is no trial.',
          ),
      }),
    ),
  })
  .meta({ id: 'ComparisonMatrix', description: 'All trials of a comparison in compact form.' })
export type ComparisonMatrix = z.infer<typeof ComparisonMatrix>
