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

const wanted = z.number().int().min(0).max(TASKS_MAX)
const CandidateCounts = z
  .strictObject({ easy: wanted, medium: wanted, hard: wanted })
  .refine(({ easy, medium, hard }) => easy + medium + hard >= 1 && easy + medium + hard <= TASKS_MAX, {
    message: `The total must be 1 to ${TASKS_MAX}.`,
  })
  .describe(`Candidates that are tried, of each difficulty. The total is 1 to ${TASKS_MAX}.`)
export type CandidateCounts = z.infer<typeof CandidateCounts>

const name = z.string().min(1).max(NAME_MAX)
const ModelAccess = z
  .enum(['credential', 'environment'])
  .describe('`environment`: the server’s own keys, offered only where credential storage is off.')

export const NewGeneration = z
  .strictObject({
    authorModel: name.describe('Writes the instructions.'),
    verifierModel: name.describe('Judges them. Better another model than the author.'),
    reasoning: name.describe('A level that both models have.'),
    modelAccess: ModelAccess,
    modelCredentialId: z.uuid().optional().describe('With `modelAccess: "credential"`, and only then.'),
    verifierCredentialId: z.uuid().optional().describe('Where the verifier is of another provider. Default: the same.'),
    sandbox: name.describe('Where repositories are built and their tests run.'),
    sandboxCredentialId: z.uuid().optional().describe('Default: the built-in one.'),
    harborEnvironment: name.describe('Where finished tasks are validated.'),
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
  .describe('Also pull requests that an earlier batch has made ready or rejected.')
export const budgetUsd = z.number().min(0).max(USD_MAX)

export const NewBatch = z.strictObject({
  candidateCounts: CandidateCounts,
  generation: NewGeneration.optional().describe('Required where credential storage is on; else there are defaults.'),
  budgetUsd: budgetUsd.optional().describe('At this much no model is asked any more, and the batch waits.'),
  again,
})
export type NewBatch = z.infer<typeof NewBatch>

const named = { id: z.string(), name: z.string() }
const OptionCredential = z.object({ id: z.uuid(), name: z.string(), provider: z.string() })
const OptionSandbox = z.object({
  ...named,
  provider: z.string().describe('Whose credentials it takes.'),
  available: z.boolean().describe('A worker that lives now offers it. Others are refused.'),
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
          provider: z.string().describe('Whose credentials it takes.'),
          reasoning: z.array(z.string()).min(1),
          prices: z.object({ input: z.number(), output: z.number() }).describe('USD for a million tokens.'),
        }),
      )
      .describe('Those that a credential of this workspace opens, for author and verifier.'),
    reasoning: z.array(z.string()).describe('Levels that some of these models have.'),
    modelAccess: z.array(ModelAccess),
    modelCredentials: z.array(OptionCredential),
    sandboxes: z.array(OptionSandbox),
    sandboxCredentials: z.array(OptionCredential),
    harborEnvironments: z.array(OptionSandbox),
    harborCredentials: z.array(OptionCredential),
    defaults: NewGeneration.nullable().describe('Null while there is no credential of a model, or no sandbox.'),
  })
  .meta({ id: 'GenerationOptions', description: 'Every value that a new batch may name, and the defaults.' })
export type GenerationOptions = z.infer<typeof GenerationOptions>

export const PreviewBatchInput = z.strictObject({ candidateCounts: CandidateCounts.optional(), again })
export type PreviewBatchInput = z.infer<typeof PreviewBatchInput>

export const BatchPreview = z
  .object({
    branch: z.string(),
    tip: z.string().nullable().describe('Null: the repository is empty.'),
    pullRequests: count.describe('Merged ones that were recognised.'),
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
        candidates: count.describe('Those that would be tried.'),
        capUsd: z
          .number()
          .describe('What each may cost, together; up to three times as much where a provider breaks in the middle.'),
        usualUsd: z
          .number()
          .nullable()
          .describe('What it comes to if they cost as much as the last ones of this workspace. Null: too few to say.'),
      })
      .describe('Of models. Most candidates end before a model is asked.'),
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
  title: 'The repository cannot be read',
  meaning:
    'Its address is refused, its credential is not taken, or it is larger than a mirror may be. The detail says which.',
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
  until: z.iso.datetime().describe('When it is looked at again.'),
})

export type Waiting = z.infer<typeof Waiting>

/** Reason why a task was rejected. */
export const Rejection = z.object({ reason: z.string(), detail: z.string() })

export type Rejection = z.infer<typeof Rejection>

export const TaskPullRequest = z
  .object({
    number: z.number().int().nullable(),
    title: z.string(),
    url: z.string().nullable().describe('Null where the repository is no code host’s.'),
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

/** How the task is verified, and what its rewards are worth. */
export const TaskCalibration = z
  .object({
    sandbox: z.string(),
    verifyMode: z.string().nullable().describe('The strictest that fits. Null: none does.'),
    strength: z.enum(['weak', 'standard', 'strong']).nullable(),
    weakness: z
      .string()
      .nullable()
      .optional()
      .describe('Why the files of the verifier do not show that its tests only read the submission. Null if they do.'),
    winners: z.array(z.string()).describe('Known cheats that score.'),
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
    reused: z.boolean().describe('Another task had the same result before.'),
    evidence: z.unknown().describe('What this stage found. Its shape is the stage’s own.'),
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

const MICROS = 1e6
export const toUsd = (micros: number): number => micros / MICROS
export const toMicros = (usd: number): number => Math.round(usd * MICROS)
