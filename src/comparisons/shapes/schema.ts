import { z } from 'zod'
import { BatchTask } from '../../batches/schema.ts'

const time = z.iso.datetime()
const usd = z.number().min(0)
const count = z.number().int().min(0)
const uuid = z.uuid().transform((id) => id.toLowerCase())

const MODELS_MAX = 12
const HARNESSES_MAX = 16
const TASKS_MAX = 5000
const ATTEMPTS_MAX = 10
export const TRIALS_MAX = 100_000

const TRIAL_STATES = ['queued', 'running', 'passed', 'failed', 'errored', 'canceled'] as const
export const TrialState = z.enum(TRIAL_STATES).meta({ id: 'TrialState' })
export type TrialState = z.infer<typeof TrialState>

const SCORED_CLASSES = ['verified', 'agent_timeout', 'agent_exit', 'budget_stop', 'refusal', 'limit'] as const
const UNSCORED_CLASSES = ['provider_error', 'sandbox_error', 'verifier_error', 'operator_error'] as const
export const TrialClass = z
  .enum([...SCORED_CLASSES, ...UNSCORED_CLASSES])
  .describe('How it ended. The last four are not scored: neither a pass nor a failure.')
  .meta({ id: 'TrialClass' })
export type TrialClass = z.infer<typeof TrialClass>

const ModelChoice = z
  .strictObject({
    catalogId: z.string().min(1).max(200),
    credentialId: uuid,
    harnesses: z.array(z.string().min(1).max(100)).min(1).max(HARNESSES_MAX),
    reasoningLevel: z.string().min(1).max(50).optional().describe("Default: the catalog's."),
  })
  .meta({ id: 'ModelChoice' })
export type ModelChoice = z.infer<typeof ModelChoice>

export const NewComparison = z.strictObject({
  id: uuid.describe('Chosen by the client, and sent again when it asks again.'),
  models: z.array(ModelChoice).min(1).max(MODELS_MAX),
  attempts: z.number().int().min(1).max(ATTEMPTS_MAX).default(1).describe('Trials of each task with each setting.'),
  skipCompleted: z.boolean().default(false).describe('Trials that were scored before fill their places.'),
  sandbox: z.string().min(1).max(100),
  sandboxCredentialId: uuid,
  budgetUsd: usd
    .max(1_000_000)
    .optional()
    .describe('Hard limit of new spend: settled and reserved costs together never exceed it.'),
  trialBudgetUsd: usd.max(1_000_000).optional().describe('At this much a trial is stopped, and judged as it is.'),
  concurrency: z.number().int().min(1).max(10_000).optional().describe('Trials of it that run at once.'),
})
export type NewComparison = z.infer<typeof NewComparison>

/** The body that would create the comparison. What a quote does not depend on may be left out. */
export const QuoteRequest = NewComparison.partial({ id: true, sandbox: true, sandboxCredentialId: true })
export type QuoteRequest = z.infer<typeof QuoteRequest>

/** A task of a repository, by the batch that it came with. */
const TaskChoice = z
  .strictObject({
    runId: z
      .string()
      .min(1)
      .max(100)
      .transform((id) => id.toLowerCase()),
    taskId: z.string().min(1).max(100),
  })
  .meta({ id: 'TaskChoice' })
export type TaskChoice = z.infer<typeof TaskChoice>

const chosen = { tasks: z.array(TaskChoice).min(1).max(TASKS_MAX).describe('Approved ones, each once.') }

export const NewRepositoryComparison = NewComparison.extend(chosen)
export const RepositoryQuoteRequest = QuoteRequest.extend(chosen)

/** What can be chosen in a repository. */
export const ApprovedTask = BatchTask.pick({ taskId: true, title: true, difficulty: true, pullRequest: true })
  .extend({ runId: z.string(), digest: z.string() })
  .meta({ id: 'ApprovedTask' })

const TrialCounts = z
  .object({
    total: count,
    queued: count,
    running: count,
    passed: count,
    failed: count,
    errored: count,
    canceled: count,
    reused: count.describe('Of these, filled by trials of earlier comparisons.'),
  })
  .meta({ id: 'TrialCounts' })
export type TrialCounts = z.infer<typeof TrialCounts>

const Interval = z.object({
  low: z.number(),
  high: z.number(),
  level: z.number(),
  method: z.string(),
  tasks: count,
  trials: count,
})

const Stats = z
  .object({
    passAt1: z.number().nullable().describe('Mean over tasks of the share of scored trials that passed, in percent.'),
    ci95: Interval.nullable().describe('In percent. Null below five tasks.'),
  })
  .meta({ id: 'SettingStats' })

export const Setting = z
  .object({
    id: z.string().describe('`<catalogId>|<harness>|<reasoningLevel>`'),
    model: z.object({ catalogId: z.string(), name: z.string(), label: z.string() }),
    harness: z.string(),
    harnessVersion: z.string(),
    reasoningLevel: z.string(),
    provider: z.string(),
    custom: z.boolean(),
    isolation: z.string().nullable(),
    tasks: count.describe('Tasks with a scored trial.'),
    passed: count.describe('Of these, passed by their first scored trial.'),
    accuracy: z.number().nullable(),
    costPerTaskUsd: usd.nullable(),
    totalCostUsd: usd
      .nullable()
      .describe('Cost of the trials that stand for its tasks, with their retries, also where they were reused.'),
    costUsd: usd.describe('New spend on its trials, retries and unscored trials included. All settings add up.'),
    pendingUsd: usd.describe('Reserved for calls that are under way. Not part of any cost.'),
    stats: Stats,
    trials: TrialCounts,
  })
  .meta({ id: 'ComparisonSetting' })
export type Setting = z.infer<typeof Setting>

export const SubmissionError = z.object({ code: z.string(), message: z.string(), retryable: z.boolean(), at: time })
export type SubmissionError = z.infer<typeof SubmissionError>

export const Pause = z.object({ reason: z.enum(['budget', 'credential', 'sandbox']), message: z.string(), at: time })
export type Pause = z.infer<typeof Pause>

const Scope = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('benchmark'), datasetOrg: z.string(), dataset: z.string() }),
  z.object({ kind: z.literal('repository'), owner: z.string(), name: z.string() }),
])

export const Comparison = z
  .object({
    id: z.uuid(),
    scope: Scope,
    state: z.enum(['submitting', 'submission_failed', 'running', 'paused', 'completed', 'canceled']),
    submissionError: SubmissionError.optional().describe('Only where submission did not complete. Resume it.'),
    pause: Pause.optional(),
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
    trials: TrialCounts,
    costUsd: usd.describe(
      'New spend: what the calls of all its trials have cost so far, retries included. The trials that are not reused add up to it.',
    ),
    pendingUsd: usd.describe('Reserved for calls that are under way. With costUsd never more than budgetUsd.'),
    projectedCostUsd: z
      .object({ low: usd, high: usd })
      .nullable()
      .describe('New spend at the end, judged by the trials so far.'),
    etaSeconds: count.nullable(),
    frontier: z.array(z.string()),
    settings: z.array(Setting),
  })
  .meta({ id: 'Comparison' })
export type Comparison = z.infer<typeof Comparison>

export const Artifact = z
  .object({ name: z.string(), mediaType: z.string(), bytes: count })
  .meta({ id: 'TrialArtifact' })
export type Artifact = z.infer<typeof Artifact>

const seconds = z.number().min(0).nullable()

export const Timings = z.object({
  queue: seconds,
  prepare: seconds,
  agent: seconds,
  verify: seconds,
  total: seconds,
})

export const Usage = z.object({ input: count, cacheRead: count, cacheWrite: count, output: count, reasoning: count })

/** A call to the model, as the gateway saw it. */
export const TrialCall = z
  .object({
    id: z.uuid(),
    at: time,
    protocol: z.string(),
    model: z.string().nullable().describe('The one that answered, as it calls itself.'),
    askedFor: z.string().nullable().describe("Another model's name, that was answered by the trial's own."),
    outcome: z.enum(['open', 'succeeded', 'failed', 'cut', 'lost']),
    status: z.number().int().nullable().describe("The provider's last, after all tries."),
    failure: z.string().nullable(),
    tries: count,
    usage: Usage,
    costUsd: usd.nullable().describe('Null while the call is under way, and where its price is unknown.'),
    pendingUsd: usd.describe('Reserved while the call is under way.'),
    outputLimit: count.nullable().describe('Output tokens to which a budget limited the answer.'),
    costSource: z
      .enum(['metered', 'estimated', 'reserved', 'unknown'])
      .describe('Where the cost comes from: the usage on the wire, a guess by what passed, the most it could be.'),
    firstByteMs: count.nullable(),
    totalMs: count.nullable(),
    levelMismatch: z.boolean().describe("It asked for another reasoning level than the setting's."),
    bodies: z.boolean().describe('What was said in it is kept.'),
  })
  .meta({ id: 'TrialCall' })
export type TrialCall = z.infer<typeof TrialCall>

/** What was left of an attempt that the infrastructure spoiled. */
const SpoiledAttempt = z.object({ class: TrialClass, error: z.string(), at: time })

export const Trial = z
  .object({
    id: z.uuid(),
    task: z.object({
      name: z.string(),
      digest: z.string(),
      runId: z.string().optional().describe('In a repository: the batch that it came with.'),
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
        'Id of the earlier trial. It is read, with its calls and artifacts, among the trials of this comparison.',
      ),
    timings: Timings,
    usage: Usage.nullable(),
    costUsd: usd.nullable().describe('Of all its attempts: what their calls have cost so far.'),
    retriesCostUsd: usd.describe('The part of costUsd that was spent before the last attempt.'),
    pendingUsd: usd.describe('Reserved for calls that are under way. Not part of any cost.'),
    costSource: z.string().nullable(),
    isolation: z.string().nullable(),
    verifyMode: z.string().nullable(),
    retries: count,
    artifacts: z.array(Artifact),
    error: z.string().optional(),
    voided: z.object({ reason: z.string(), at: time }).optional(),
  })
  .meta({ id: 'Trial' })
export type Trial = z.infer<typeof Trial>

export const TrialWithAttempts = Trial.extend({ spoiled: z.array(SpoiledAttempt) }).meta({ id: 'TrialWithAttempts' })
export type TrialWithAttempts = z.infer<typeof TrialWithAttempts>

/** What a stream tells of a trial that changed. */
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
  .meta({ id: 'TrialChange' })
export type TrialChange = z.infer<typeof TrialChange>

export const Matrix = z
  .object({
    settings: z.array(z.string()),
    attempts: count,
    tasks: z.array(
      z.object({
        name: z.string(),
        cells: z
          .string()
          .describe('A letter for each attempt, setting after setting: q r p f e c, as the states begin; - for none.'),
      }),
    ),
  })
  .meta({ id: 'ComparisonMatrix' })
export type Matrix = z.infer<typeof Matrix>

export const Quote = z
  .object({
    tasks: count,
    settings: count,
    trials: count,
    costUsd: z
      .object({ low: usd, expected: usd, high: usd })
      .nullable()
      .describe('From what the same settings used before. Null when one of them was never used.'),
    smallestDifference: z
      .number()
      .describe('Between two settings, in percentage points: what this many trials show in four cases of five.'),
  })
  .meta({ id: 'ComparisonQuote' })
export type Quote = z.infer<typeof Quote>
