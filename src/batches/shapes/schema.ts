import { z } from 'zod'

export const DIGEST = z.string().max(100).describe('`sha256:` and 64 hexadecimal digits, as Harbor computes it.')

const BatchState = z.enum(['queued', 'discovering', 'running', 'waiting', 'completed', 'failed', 'canceled'])
export const Difficulty = z.enum(['easy', 'medium', 'hard'])
export const Decision = z.enum(['approved', 'declined'])

const count = z.number().int().min(0)
const perDifficulty = <S extends z.ZodType>(each: S) => z.object({ easy: each, medium: each, hard: each })

export const BatchError = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  at: z.iso.datetime(),
})
export type BatchError = z.infer<typeof BatchError>

export const Waiting = z.object({ reason: z.literal('sandbox'), until: z.iso.datetime() })
export type Waiting = z.infer<typeof Waiting>

export const BatchRun = z
  .object({
    runId: z.string(),
    state: BatchState,
    createdAt: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable(),
    finishedAt: z.iso.datetime().nullable(),
    candidateCounts: perDifficulty(count).describe('What was asked for. Nothing is asked for by an import.'),
    generation: z.null().describe('Null for an import.'),
    counts: z.object({
      discovered: count.describe('Tasks in the archive.'),
      screened: count.describe('Of them, those that can be read and passed the safety check.'),
      executed: count,
      authored: count,
      validated: count.describe('Of them, those whose solution passes and whose tests refuse doing nothing.'),
      verified: count,
      ready: count,
      rejected: count,
      deferred: count,
      approved: count,
      declined: count,
    }),
    byDifficulty: perDifficulty(z.object({ requested: count, selected: count, ready: count })),
    shortfall: count,
    rejections: z.record(z.string(), count),
    waiting: Waiting.optional(),
    warnings: z.array(z.string()),
    costUsd: z.number(),
    error: BatchError.optional(),
  })
  .meta({ id: 'BatchRun' })
export type BatchRun = z.infer<typeof BatchRun>

/** Why a task is not taken. */
export const Rejection = z.object({
  reason: z.enum(['invalid_task', 'unsafe_task', 'duplicate_name', 'oracle_fails', 'nop_passes', 'environment_failed']),
  detail: z.string(),
})
export type Rejection = z.infer<typeof Rejection>

export const BatchTask = z
  .object({
    taskId: z.string(),
    state: z.enum(['validating', 'ready', 'rejected']),
    difficulty: Difficulty.nullable().describe('As its author says.'),
    requestedDifficulty: Difficulty.nullable(),
    title: z.string(),
    pullRequest: z.null(),
    digest: DIGEST.nullable().describe('Null when the task could not be read, or may not be kept.'),
    decision: Decision.nullable(),
    rejection: Rejection.optional(),
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

export const Evidence = z.object({
  findings: z.array(
    z.object({ rule: z.string(), severity: z.enum(['block', 'warn']), path: z.string(), detail: z.string() }),
  ),
  calibration: TaskCalibration.nullable(),
})
export type Evidence = z.infer<typeof Evidence>

export const TaskContent = z.object({
  instruction: z.string(),
  files: z.array(z.object({ path: z.string(), bytes: count, executable: z.boolean(), sha256: z.string() })),
})
export type TaskContent = z.infer<typeof TaskContent>

export const BatchTaskDetail = BatchTask.extend({
  instruction: z.string().nullable(),
  files: TaskContent.shape.files,
  evidence: Evidence,
  note: z.string().nullable(),
  decidedAt: z.iso.datetime().nullable(),
}).meta({ id: 'BatchTaskDetail' })
export type BatchTaskDetail = z.infer<typeof BatchTaskDetail>
