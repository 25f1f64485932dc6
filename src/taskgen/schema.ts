import { z } from 'zod'
import type { ProblemKind } from '../platform/problem.ts'

/** Maximum number of tasks in a batch. */
export const TASKS_MAX = 300
const USD_MAX = 1_000_000
const NAME_MAX = 200

export const Difficulty = z.enum(['easy', 'medium', 'hard'])
export type Difficulty = z.infer<typeof Difficulty>

const count = z.number().int().min(0)
export const perDifficulty = <S extends z.ZodType>(each: S) => z.object({ easy: each, medium: each, hard: each })

const requestedCount = z.number().int().min(0).max(TASKS_MAX)
const CandidateCounts = z
  .strictObject({ easy: requestedCount, medium: requestedCount, hard: requestedCount })
  .refine(({ easy, medium, hard }) => easy + medium + hard >= 1 && easy + medium + hard <= TASKS_MAX, {
    message: `The total must be 1 to ${TASKS_MAX}.`,
  })
  .describe(`Number of candidates to try, by difficulty. The total is 1 to ${TASKS_MAX}.`)
export type CandidateCounts = z.infer<typeof CandidateCounts>

const name = z.string().min(1).max(NAME_MAX)
const ModelAccess = z
  .enum(['credential', 'environment'])
  .describe('`environment`: the server’s own keys, available only if credential storage is off.')

export const NewGeneration = z
  .strictObject({
    authorModel: name.describe('Writes the instructions.'),
    verifierModel: name.describe('Reviews the tasks. Should be another model than the author.'),
    reasoning: name.describe('A reasoning level that both models support.'),
    modelAccess: ModelAccess,
    modelCredentialId: z
      .uuid()
      .optional()
      .describe('Required with `modelAccess: "credential"`, otherwise not allowed.'),
    verifierCredentialId: z
      .uuid()
      .optional()
      .describe('Credential of the verifier if it has another provider. Default: the same credential.'),
    sandbox: name.describe('Sandbox in which repositories are built and tested.'),
    sandboxCredentialId: z.uuid().optional().describe('Default: the built-in one.'),
    harborEnvironment: name.describe('Sandbox in which finished tasks are validated.'),
    harborCredentialId: z.uuid().optional().describe('Default: the built-in one.'),
  })
  .meta({ id: 'NewGeneration', description: 'Models, credentials and sandboxes that create the tasks of a batch.' })
export type NewGeneration = z.infer<typeof NewGeneration>

/** Generation settings with defaults filled in. Contains ids only, no secrets. */
export const Generation = z
  .object({
    authorModel: z.string(),
    verifierModel: z.string(),
    reasoning: z.string(),
    modelAccess: ModelAccess,
    modelCredentialId: z.uuid().nullable(),
    verifierCredentialId: z.uuid().nullable(),
    sandbox: z.string(),
    sandboxCredentialId: z.uuid(),
    harborEnvironment: z.string(),
    harborCredentialId: z.uuid(),
  })
  .meta({ id: 'Generation', description: 'Models, credentials and sandboxes of a batch, by id.' })
export type Generation = z.infer<typeof Generation>

const again = z
  .boolean()
  .default(false)
  .describe('Includes pull requests whose tasks are ready or rejected in an earlier batch.')
export const budgetUsd = z.number().min(0).max(USD_MAX)

export const NewBatch = z.strictObject({
  candidateCounts: CandidateCounts,
  generation: NewGeneration.optional().describe('Required if credential storage is on; otherwise defaults apply.'),
  budgetUsd: budgetUsd.optional().describe('The batch pauses when its model calls have cost this much.'),
  again,
})
export type NewBatch = z.infer<typeof NewBatch>

const named = { id: z.string(), name: z.string() }
const OptionCredential = z.object({ id: z.uuid(), name: z.string(), provider: z.string() })
const OptionSandbox = z.object({
  ...named,
  provider: z.string().describe('Provider of the credentials that it takes.'),
  available: z.boolean().describe('A live worker offers it. Others are refused.'),
  detail: z.string(),
  isolation: z.string().nullable(),
})

export const GenerationOptions = z
  .object({
    credentialStorage: z.boolean(),
    models: z
      .array(
        z.object({
          catalogId: z.string(),
          label: z.string(),
          provider: z.string().describe('Provider of the credentials that it takes.'),
          reasoning: z.array(z.string()).min(1),
          prices: z.object({ input: z.number(), output: z.number() }).describe('USD per million tokens.'),
        }),
      )
      .describe('Models for author and verifier that a credential of this workspace gives access to.'),
    reasoning: z.array(z.string()).describe('Levels that at least one of these models supports.'),
    modelAccess: z.array(ModelAccess),
    modelCredentials: z.array(OptionCredential),
    sandboxes: z.array(OptionSandbox),
    sandboxCredentials: z.array(OptionCredential),
    harborEnvironments: z.array(OptionSandbox),
    harborCredentials: z.array(OptionCredential),
    defaults: NewGeneration.nullable().describe('Null without a model credential or a sandbox.'),
  })
  .meta({ id: 'GenerationOptions', description: 'Every value that a new batch may name, and the defaults.' })
export type GenerationOptions = z.infer<typeof GenerationOptions>

export const PreviewBatchInput = z.strictObject({ candidateCounts: CandidateCounts.optional(), again })
export type PreviewBatchInput = z.infer<typeof PreviewBatchInput>

export const BatchPreview = z
  .object({
    branch: z.string(),
    tip: z.string().nullable().describe('Null: the repository is empty.'),
    pullRequests: count.describe('Number of recognised merged pull requests.'),
    buckets: perDifficulty(
      z.object({
        requested: count,
        available: count.describe('Candidates that no earlier batch has tried, unless `again` is set.'),
        tried: count.describe('Candidates that an earlier batch has tried.'),
        shortfall: count,
      }),
    ),
    shortfall: count,
    cost: z
      .object({
        candidates: count.describe('Number of candidates that would be tried.'),
        capUsd: z
          .number()
          .describe(
            'Sum of the budgets of all candidates; up to three times as much if a provider fails in the middle of calls.',
          ),
        usualUsd: z
          .number()
          .nullable()
          .describe('Estimate from the average of recent tasks of this workspace. Null if there are too few.'),
      })
      .describe('Cost of model calls. Most candidates are rejected before a model is called.'),
    rejections: z.array(
      z.object({
        reason: z.string(),
        meaning: z.string(),
        count,
        examples: z.array(z.object({ number: z.number().int().nullable(), title: z.string(), evidence: z.string() })),
      }),
    ),
    warnings: z.array(z.string()),
  })
  .meta({
    id: 'BatchPreview',
    description: 'The candidates that a repository could supply, the reasons for the rest, and the maximum cost.',
  })
export type BatchPreview = z.infer<typeof BatchPreview>

export const PreviewProgress = z.object({ step: z.enum(['mirror', 'scan']), pullRequests: count })
export type PreviewProgress = z.infer<typeof PreviewProgress>

export const repositoryUnreadable = {
  code: 'repository_unreadable',
  status: 422,
  title: 'Repository cannot be read',
  meaning:
    'The address is refused, the credential is rejected, or the repository is too large. `detail` names the cause.',
} as const satisfies ProblemKind

export const BatchState = z.enum(['queued', 'discovering', 'running', 'waiting', 'completed', 'failed', 'canceled'])

type BatchState = z.infer<typeof BatchState>

/** States of a batch that has not ended. */
export const OPEN_STATES: readonly BatchState[] = ['queued', 'discovering', 'running', 'waiting']

export const isOpen = ({ state }: { state: BatchState }): boolean => OPEN_STATES.includes(state)

export const BatchError = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  at: z.iso.datetime(),
})

export type BatchError = z.infer<typeof BatchError>

/** Reason for waiting. Resolves by itself or after manual action. */
const WaitReason = z.enum(['sandbox', 'budget', 'rate_limit', 'credential', 'provider', 'config', 'code_host'])

export const Waiting = z.object({
  reason: WaitReason,
  detail: z.string().optional(),
  until: z.iso.datetime().describe('Time of the next attempt.'),
})

export type Waiting = z.infer<typeof Waiting>

/** Reason why a task was rejected. */
export const Rejection = z.object({ reason: z.string(), detail: z.string() })

export type Rejection = z.infer<typeof Rejection>

export const TaskPullRequest = z
  .object({
    number: z.number().int().nullable(),
    title: z.string(),
    url: z.string().nullable().describe('Null if the repository is not on a code host.'),
    mergedAt: z.iso.datetime(),
  })
  .meta({ id: 'TaskPullRequest', description: 'The pull request that a task was created from.' })

export type TaskPullRequest = z.infer<typeof TaskPullRequest>

const Outcome = z.object({
  state: z.string(),
  class: z.string(),
  reward: z.number().nullable(),
  error: z.string().nullable(),
})

/** Verify mode of a task, and the strength of its verifier. */
export const TaskCalibration = z
  .object({
    sandbox: z.string(),
    verifyMode: z.string().nullable().describe('The strictest usable mode. Null if there is none.'),
    strength: z.enum(['weak', 'standard', 'strong']).nullable(),
    weakness: z
      .string()
      .nullable()
      .optional()
      .describe('Reason why the tests may execute files of the submission. Null if they provably only read them.'),
    winners: z.array(z.string()).describe('Known cheats that pass.'),
    attempts: z.array(z.object({ verifyMode: z.string(), oracle: Outcome, nop: Outcome.nullable() })),
    cheats: z.array(z.object({ id: z.string(), what: z.string(), outcome: z.string(), tries: count })),
  })
  .meta({
    id: 'TaskCalibration',
    description: 'The strictest verify mode of a task, and the cheats that were tried in it.',
  })

export type TaskCalibration = z.infer<typeof TaskCalibration>

/** Findings of the safety check and the calibration of an imported task. */
export const TaskEvidence = z.object({
  findings: z.array(
    z.object({ rule: z.string(), severity: z.enum(['block', 'warn']), path: z.string(), detail: z.string() }),
  ),
  calibration: TaskCalibration.nullable(),
})

export type TaskEvidence = z.infer<typeof TaskEvidence>

export const StageEvidence = z
  .object({
    stage: z.string(),
    passedAt: z.iso.datetime(),
    seconds: z.number(),
    reused: z.boolean().describe('The result was cached from an earlier run.'),
    evidence: z.unknown().describe('Findings of the stage. Each stage has its own format.'),
  })
  .meta({ id: 'StageEvidence', description: 'The result of one stage of the pipeline for a task.' })

export type StageEvidence = z.infer<typeof StageEvidence>

export const TaskContent = z.object({
  instruction: z.string(),
  files: z.array(z.object({ path: z.string(), bytes: count, executable: z.boolean(), sha256: z.string() })),
})

export type TaskContent = z.infer<typeof TaskContent>

/** A stored task with the findings of the safety check. */
export const TaskFiles = z.object({ digest: z.string(), content: TaskContent, evidence: TaskEvidence })

export type TaskFiles = z.infer<typeof TaskFiles>

export const toRunId = (batch: string): string => `batch-${batch}`
export const toBatchId = (runId: string): string => runId.slice('batch-'.length)
