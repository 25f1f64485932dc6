import { z } from 'zod'
import { Difficulty, Generation, perDifficulty } from '../generation/schema.ts'

export const DIGEST = z.string().max(100).describe('`sha256:` and 64 hexadecimal digits, as Harbor computes it.')

const BatchState = z.enum(['queued', 'discovering', 'running', 'waiting', 'completed', 'failed', 'canceled'])
type BatchState = z.infer<typeof BatchState>

/** Those of a batch that has not ended. */
export const OPEN_STATES: readonly BatchState[] = ['queued', 'discovering', 'running', 'waiting']
export const isOpen = ({ state }: { state: BatchState }): boolean => OPEN_STATES.includes(state)

export const Decision = z.enum(['approved', 'declined'])

const count = z.number().int().min(0)

export const BatchError = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  at: z.iso.datetime(),
})
export type BatchError = z.infer<typeof BatchError>

/** Not a verdict: it goes on by itself, or when somebody has seen to it. */
const WaitReason = z.enum(['sandbox', 'budget', 'rate_limit', 'credential', 'provider', 'config', 'code_host'])

export const Waiting = z.object({
  reason: WaitReason,
  detail: z.string().optional(),
  until: z.iso.datetime().describe('When it is looked at again.'),
})
export type Waiting = z.infer<typeof Waiting>

export const BatchRun = z
  .object({
    runId: z.string(),
    state: BatchState,
    createdAt: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable(),
    finishedAt: z.iso.datetime().nullable(),
    candidateCounts: perDifficulty(count).describe('What was asked for. Nothing is asked for by an import.'),
    generation: Generation.nullable().describe('Null for an import.'),
    counts: z.object({
      discovered: count.describe(
        'Pull requests that were looked at, newest first; of an import, tasks in the archive.',
      ),
      screened: count.describe('Of them, those that could become tasks; of an import, those that passed the check.'),
      executed: count.describe('Tasks whose tests fail before the change and pass after it, again and again.'),
      authored: count.describe('Tasks that have an instruction.'),
      validated: count.describe('Tasks whose solution passes and whose tests refuse doing nothing, and known cheats.'),
      verified: count.describe('Tasks that a second model found fair.'),
      ready: count,
      rejected: count,
      deferred: count.describe('Tasks that wait for something that is no fault of theirs.'),
      approved: count,
      declined: count,
    }),
    byDifficulty: perDifficulty(z.object({ requested: count, selected: count, ready: count })),
    shortfall: count.describe('How many candidates fewer there were than was asked for.'),
    rejections: z.record(z.string(), count),
    waiting: Waiting.optional(),
    warnings: z.array(z.string()),
    budgetUsd: z.number().optional(),
    costUsd: z.number().describe('What models were paid.'),
    error: BatchError.optional(),
  })
  .meta({ id: 'BatchRun' })
export type BatchRun = z.infer<typeof BatchRun>

/** Why a task is not taken. */
export const Rejection = z.object({ reason: z.string(), detail: z.string() })
export type Rejection = z.infer<typeof Rejection>

export const TaskPullRequest = z
  .object({
    number: z.number().int().nullable(),
    title: z.string(),
    url: z.string().nullable().describe('Null where the repository is no code host’s.'),
    mergedAt: z.iso.datetime(),
  })
  .meta({ id: 'TaskPullRequest' })
export type TaskPullRequest = z.infer<typeof TaskPullRequest>

export const BatchTask = z
  .object({
    taskId: z.string(),
    state: z.enum(['making', 'validating', 'ready', 'rejected']),
    stage: z.string().nullable().describe('What comes next; of one that was rejected, what rejected it.'),
    difficulty: Difficulty.nullable().describe('As found; of an import, as its author says.'),
    requestedDifficulty: Difficulty.nullable(),
    title: z.string(),
    pullRequest: TaskPullRequest.nullable(),
    digest: DIGEST.nullable().describe('Null while there are no files, or when they may not be kept.'),
    decision: Decision.nullable(),
    rejection: Rejection.optional(),
    deferred: Waiting.optional(),
    concerns: z
      .array(z.string())
      .describe('What a person should look at first. A task without any is green, and may be approved with others.'),
  })
  .meta({ id: 'BatchTask' })
export type BatchTask = z.infer<typeof BatchTask>

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
    winners: z.array(z.string()).describe('Known cheats that score.'),
    attempts: z.array(z.object({ verifyMode: z.string(), oracle: Outcome, nop: Outcome.nullable() })),
    cheats: z.array(z.object({ id: z.string(), what: z.string(), outcome: z.string(), tries: count })),
  })
  .meta({ id: 'TaskCalibration' })
export type TaskCalibration = z.infer<typeof TaskCalibration>

/** What the check and the sandboxes found of a task that was imported. */
export const Evidence = z.object({
  findings: z.array(
    z.object({ rule: z.string(), severity: z.enum(['block', 'warn']), path: z.string(), detail: z.string() }),
  ),
  calibration: TaskCalibration.nullable(),
})
export type Evidence = z.infer<typeof Evidence>

/** As it was stored, within the evidence of the task. */
export const RejectionEvidence = z
  .unknown()
  .optional()
  .describe('Of a generated task that was rejected: what its stage decided by, where that is more than its words.')

const StageEvidence = z
  .object({
    stage: z.string(),
    passedAt: z.iso.datetime(),
    seconds: z.number(),
    reused: z.boolean().describe('Another task had the same result before.'),
    evidence: z.unknown().describe('What this stage found. Its shape is the stage’s own.'),
  })
  .meta({ id: 'StageEvidence' })
export type StageEvidence = z.infer<typeof StageEvidence>

export const TaskContent = z.object({
  instruction: z.string(),
  files: z.array(z.object({ path: z.string(), bytes: count, executable: z.boolean(), sha256: z.string() })),
})
export type TaskContent = z.infer<typeof TaskContent>

/** A task that is kept, and what the check found in it. */
export const TaskFiles = z.object({ digest: z.string(), content: TaskContent, evidence: Evidence })
export type TaskFiles = z.infer<typeof TaskFiles>

export const BatchTaskDetail = BatchTask.extend({
  instruction: z.string().nullable(),
  files: TaskContent.shape.files,
  evidence: Evidence.extend({
    stages: z.array(StageEvidence).describe('Of a generated task: those that it passed, in their order.'),
    rejection: RejectionEvidence,
  }),
  costUsd: z.number(),
  note: z.string().nullable(),
  decidedAt: z.iso.datetime().nullable(),
}).meta({ id: 'BatchTaskDetail' })
export type BatchTaskDetail = z.infer<typeof BatchTaskDetail>
