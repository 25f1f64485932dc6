import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery } from '../platform/http/page.ts'
import type { ProblemKind } from '../platform/problem.ts'
import { codeHostUnavailable } from '../repos/schema.ts'
import {
  BatchError,
  BatchPreview,
  BatchState,
  budgetUsd,
  Difficulty,
  Generation,
  GenerationOptions,
  NewBatch,
  PreviewBatchInput,
  PreviewProgress,
  perDifficulty,
  Rejection,
  repositoryUnreadable,
  StageEvidence,
  TASKS_MAX,
  TaskContent,
  TaskEvidence,
  TaskPullRequest,
  Waiting,
} from '../taskgen/schema.ts'

const DIGEST = z.string().max(100).describe('`sha256:` and 64 hexadecimal digits, as Harbor computes it.')

const Decision = z.enum(['approved', 'declined'])

const count = z.number().int().min(0)

export const BatchRun = z
  .object({
    runId: z.string(),
    state: BatchState,
    createdAt: z.iso.datetime(),
    startedAt: z.iso.datetime().nullable(),
    finishedAt: z.iso.datetime().nullable(),
    candidateCounts: perDifficulty(count).describe('Requested number of candidates. All zero for an import.'),
    generation: Generation.nullable().describe('Null for an import.'),
    counts: z.object({
      discovered: count.describe(
        'Pull requests that were examined, newest first; for an import, tasks in the archive.',
      ),
      screened: count.describe('Candidates among them; for an import, tasks that passed the safety check.'),
      executed: count.describe('Tasks whose tests reliably fail before the change and pass after it.'),
      authored: count.describe('Tasks that have an instruction.'),
      validated: count.describe('Tasks that the reference solution passes, and a no-op and known cheats do not.'),
      verified: count.describe('Tasks that the verifier model accepted.'),
      ready: count,
      rejected: count,
      deferred: count.describe('Tasks that wait for something external.'),
      approved: count,
      declined: count,
    }),
    byDifficulty: perDifficulty(z.object({ requested: count, selected: count, ready: count })),
    shortfall: count.describe('Number of requested candidates that were not found.'),
    rejections: z.record(z.string(), count),
    waiting: Waiting.optional(),
    warnings: z.array(z.string()),
    budgetUsd: z.number().optional(),
    costUsd: z.number().describe('Cost of model calls.'),
    error: BatchError.optional(),
  })
  .meta({
    id: 'BatchRun',
    description: 'A batch: tasks of a repository that are created or imported together, and their progress.',
  })
export type BatchRun = z.infer<typeof BatchRun>

export const BatchTask = z
  .object({
    taskId: z.string(),
    state: z.enum(['making', 'validating', 'ready', 'rejected']),
    stage: z.string().nullable().describe('Next stage; for a rejected task, the stage that rejected it.'),
    difficulty: Difficulty.nullable().describe('Estimated; for an import, as declared by its author.'),
    requestedDifficulty: Difficulty.nullable(),
    title: z.string(),
    pullRequest: TaskPullRequest.nullable(),
    digest: DIGEST.nullable().describe('Null while there are no files, or if they must not be stored.'),
    decision: Decision.nullable(),
    rejection: Rejection.optional(),
    deferred: Waiting.optional(),
    concerns: z
      .array(z.string())
      .describe('Warnings for the reviewer. A task without warnings can be approved together with others.'),
  })
  .meta({ id: 'BatchTask', description: 'A task of a batch and its state.' })
export type BatchTask = z.infer<typeof BatchTask>

/** Stored with the evidence of the task. */
export const RejectionEvidence = z
  .unknown()
  .optional()
  .describe('For a rejected generated task: structured evidence of the stage that rejected it, if there is any.')

export const BatchTaskDetail = BatchTask.extend({
  instruction: z.string().nullable(),
  files: TaskContent.shape.files,
  evidence: TaskEvidence.extend({
    stages: z.array(StageEvidence).describe('For a generated task: the stages that it passed, in order.'),
    rejection: RejectionEvidence,
  }),
  costUsd: z.number(),
  note: z.string().nullable(),
  decidedAt: z.iso.datetime().nullable(),
}).meta({ id: 'BatchTaskDetail', description: 'A task with its instruction, files and evidence.' })
export type BatchTaskDetail = z.infer<typeof BatchTaskDetail>

const ARCHIVE_BYTES_MAX = 64 * 1024 * 1024
const FILE_LENGTH_MAX = 1024 * 1024

export const taskNotReady = {
  code: 'task_not_ready',
  status: 409,
  title: 'Task is not ready',
  meaning: 'Only a task that passed its validation can be approved or declined.',
} as const satisfies ProblemKind

export const taskChanged = {
  code: 'task_changed',
  status: 409,
  title: 'Task has changed since it was reviewed',
  meaning: 'The digest belongs to an earlier version of the task. Review the task again and send its current digest.',
} as const satisfies ProblemKind

export const taskNotGreen = {
  code: 'task_not_green',
  status: 409,
  title: 'Task has warnings',
  meaning:
    'Several tasks can be approved at once only if none of them has warnings. Review these tasks and decide on each one separately.',
} as const satisfies ProblemKind

export const fileNotEditable = {
  code: 'file_not_editable',
  status: 409,
  title: 'File cannot be changed',
  meaning: 'Only the instruction of a generated task can be changed: its other files were validated as they are.',
} as const satisfies ProblemKind

export const batchStopped = {
  code: 'batch_stopped',
  status: 409,
  title: 'Batch was canceled or has failed',
  meaning: 'Resume the batch first: a changed task must be validated again.',
} as const satisfies ProblemKind

export const archiveGone = {
  code: 'archive_gone',
  status: 409,
  title: 'Archive of the batch was deleted',
  meaning: 'The batch failed permanently, or was canceled more than a week ago. Import the archive again.',
} as const satisfies ProblemKind

export const importsFull = {
  code: 'imports_full',
  status: 409,
  title: 'Import quota exceeded',
  meaning:
    'Archives count until a day after their tasks are listed, or a week after the batch was canceled; files of tasks count for as long as the batch exists.',
} as const satisfies ProblemKind

const BATCHES = '/api/orgs/{org}/repos/{owner}/{name}/batches'
const BATCH = '/api/orgs/{org}/repos/{owner}/{name}/batches/{runId}'
const TASK = '/api/orgs/{org}/repos/{owner}/{name}/batches/{runId}/tasks/{taskId}'

export const readGenerationOptions = endpoint({
  id: 'readGenerationOptions',
  method: 'GET',
  path: '/api/orgs/{org}/repos/{owner}/{name}/generation-options',
  summary: 'List the allowed values of a new batch, also for a public repository that is not connected yet',
  access: 'read',
  answers: { 200: GenerationOptions },
  problems: [codeHostUnavailable],
})

export const createBatch = endpoint({
  id: 'createBatch',
  method: 'POST',
  path: BATCHES,
  summary: 'Create tasks from merged pull requests: the newest candidates of each difficulty',
  access: 'write',
  body: NewBatch,
  example: { candidateCounts: { easy: 2, medium: 1, hard: 0 } },
  creates: true,
  answers: { 202: z.object({ runId: z.string(), run: BatchRun }) },
  problems: [codeHostUnavailable],
})

export const previewBatch = endpoint({
  id: 'previewBatch',
  method: 'POST',
  path: `${BATCHES}/preview`,
  summary:
    'Count the candidates among the pull requests of a repository, and the reasons for the rest, without running anything',
  access: 'read',
  body: PreviewBatchInput,
  bodyOptional: true,
  example: { candidateCounts: { easy: 2, medium: 1, hard: 0 } },
  progress: PreviewProgress,
  answers: { 200: BatchPreview },
  problems: [repositoryUnreadable, codeHostUnavailable],
})

export const importBatch = endpoint({
  id: 'importBatch',
  method: 'POST',
  path: `${BATCHES}/import`,
  summary: 'Import hand-written tasks: a gzipped tar archive with one folder in Harbor’s format per task',
  access: 'write',
  upload: { mediaType: 'application/gzip', bytesMax: ARCHIVE_BYTES_MAX },
  creates: true,
  answers: { 202: z.object({ runId: z.string(), run: BatchRun }) },
  problems: [importsFull, codeHostUnavailable],
})

export const listBatches = endpoint({
  id: 'listBatches',
  method: 'GET',
  path: BATCHES,
  summary: 'List the batches of a repository, newest first',
  access: 'read',
  query: pageQuery(),
  answers: { 200: z.object({ batches: z.array(BatchRun), nextCursor: z.string().nullable() }) },
})

export const readBatch = endpoint({
  id: 'readBatch',
  method: 'GET',
  path: BATCH,
  summary: 'Read the status of a batch',
  access: 'read',
  answers: { 200: BatchRun },
})

export const cancelBatch = endpoint({
  id: 'cancelBatch',
  method: 'POST',
  path: `${BATCH}/cancel`,
  summary: 'Cancel all unfinished tasks of a batch; ready tasks stay. Idempotent',
  access: 'write',
  answers: { 202: BatchRun },
})

export const resumeBatch = endpoint({
  id: 'resumeBatch',
  method: 'POST',
  path: `${BATCH}/resume`,
  summary:
    'Resume a batch that waits, failed or was canceled; in a completed batch, retry tasks that the infrastructure failed',
  access: 'write',
  body: z.strictObject({ budgetUsd: budgetUsd.optional().describe('New budget.') }),
  bodyOptional: true,
  example: {},
  answers: { 202: BatchRun },
  problems: [archiveGone],
})

export const followBatch = endpoint({
  id: 'followBatch',
  method: 'GET',
  path: `${BATCH}/events`,
  summary: 'Stream the status of a batch: now, at each change, and at its end',
  access: 'read',
  events: { status: BatchRun, end: z.object({ state: z.string() }) },
  answers: { 200: null },
})

export const listBatchTasks = endpoint({
  id: 'listBatchTasks',
  method: 'GET',
  path: `${BATCH}/tasks`,
  summary: 'List the tasks of a batch, ordered by id',
  access: 'read',
  answers: { 200: z.object({ tasks: z.array(BatchTask) }) },
})

export const readBatchTask = endpoint({
  id: 'readBatchTask',
  method: 'GET',
  path: TASK,
  summary: 'Read a task with its instruction, its files and the evidence',
  access: 'read',
  answers: { 200: BatchTaskDetail },
})

export const readBatchTaskFile = endpoint({
  id: 'readBatchTaskFile',
  method: 'GET',
  path: `${TASK}/files/{path}`,
  summary: 'Download one file of a task',
  access: 'read',
  download: true,
  answers: { 200: null },
})

export const putBatchTaskFile = endpoint({
  id: 'putBatchTaskFile',
  method: 'PUT',
  path: `${TASK}/files/{path}`,
  summary: 'Replace a file of a task. Dependent stages are repeated, and earlier decisions are cleared',
  access: 'write',
  conditional: true,
  body: z.strictObject({ content: z.string().max(FILE_LENGTH_MAX) }),
  example: { content: 'Write the word hello to /app/hello.txt.\n' },
  answers: { 202: BatchTaskDetail },
  problems: [taskNotReady, fileNotEditable, batchStopped],
})

export const readBatchTaskArchive = endpoint({
  id: 'readBatchTaskArchive',
  method: 'GET',
  path: `${TASK}/archive`,
  summary: 'Download a task as Harbor packs it: a gzipped tar archive',
  access: 'read',
  download: true,
  answers: { 200: null },
})

const exampleDigest = `sha256:${'0'.repeat(64)}`
const decision = { decision: Decision, digest: DIGEST, note: z.string().max(10_000).optional() }

export const decideTask = endpoint({
  id: 'decideTask',
  method: 'POST',
  path: `${TASK}/decision`,
  summary: 'Approve or decline the current version of a ready task; the last decision counts',
  access: 'write',
  body: z.strictObject(decision),
  example: { decision: 'approved', digest: exampleDigest },
  answers: { 200: BatchTask },
  problems: [taskNotReady, taskChanged],
})

export const decideTasks = endpoint({
  id: 'decideTasks',
  method: 'POST',
  path: `${BATCH}/decisions`,
  summary: 'Decide on several tasks at once: on all of them, or on none if one cannot be decided on',
  access: 'write',
  body: z.strictObject({
    decisions: z
      .array(z.strictObject({ taskId: z.string().max(100), ...decision }))
      .min(1)
      .max(TASKS_MAX),
  }),
  example: { decisions: [{ taskId: 'hello', decision: 'approved', digest: exampleDigest }] },
  answers: { 200: z.object({ tasks: z.array(BatchTask) }) },
  problems: [taskNotReady, taskChanged, taskNotGreen],
})
