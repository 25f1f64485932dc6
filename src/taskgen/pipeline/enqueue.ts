import { z } from 'zod'
import { listLiveCapabilities } from '../../catalog/capabilities.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import type { Db } from '../../platform/db/db.ts'
import { derivedId } from '../../platform/ids.ts'
import { defineJobType, enqueue, type JobType, setLimit } from '../../platform/jobs/jobs.ts'
import type { StoredGeneration } from './resolve.ts'
import { deferTask, hasOpenBatchWithModel, listTasksInProgress, type TaskKey } from './sql.ts'
import { isStage, type Need, STAGES, type Stage, type StageName, type Stages } from './stage.ts'

const StagePayload = z.strictObject({ batch: z.uuid(), task: z.string(), stage: z.enum(STAGES) })
export type StagePayload = z.infer<typeof StagePayload>

/** Number of failed attempts, with all resources available, after which the task is rejected. */
const FAILURES_MAX = 3

/** Returns the job type of stages in a sandbox, or without one. A worker claims only the types that it can run. */
export const stageJobType = (sandbox: string | undefined): JobType<StagePayload> =>
  defineJobType({
    type: sandbox === undefined ? 'batch.stage' : `batch.stage.${sandbox}`,
    payload: StagePayload,
    failuresMax: FAILURES_MAX,
  })

/** Job type of the check whether a worker has the sandbox of a task by now. */
export const sandboxWatchJobType = defineJobType({ type: 'batch.look', payload: StagePayload })

const stageJobId = ({ batch, task, stage }: StagePayload): string => derivedId('batch stage', batch, task, stage)
const sandboxWatchJobId = ({ batch, task }: TaskKey): string => derivedId('batch look', batch, task)

/** Lists every job that may exist for a task at this stage. */
const listJobIds = (payload: StagePayload): string[] => [stageJobId(payload), sandboxWatchJobId(payload)]

/** Returns the sandbox provider of a stage, if it needs one. */
export function sandboxOf({ needs }: Pick<Stage, 'needs'>, generation: StoredGeneration): string | undefined {
  if (needs.includes('sandbox')) return generation.sandbox
  return needs.includes('harbor') ? generation.harborEnvironment : undefined
}

/** Returns the limit key of jobs without a sandbox. They may wait long for the code host and the models of a workspace. */
export const toGenerationKey = (workspaceId: string): string => `generation ${workspaceId}`

/** Sets the number of jobs with a generation key that each workspace may run at the same time. */
export const limitGeneration = (db: Db, slots: number): Promise<void> => setLimit(db, 'generation', slots)

type QueuedTask = TaskKey & { workspaceId: string; generation: StoredGeneration }
export type EnqueueDeps = { stages: Stages; sandboxWaitMs: number }

/** Enqueues the job of a stage. While no worker has the sandbox, defers the task and enqueues a watch job instead. */
export async function enqueueStage(
  tx: Db,
  { stages, sandboxWaitMs }: EnqueueDeps,
  task: QueuedTask,
  stage: StageName,
  runAt?: Date,
): Promise<void> {
  const payload = { batch: task.batch, task: task.task, stage }
  const sandbox = sandboxOf(stages[stage], task.generation)
  const fairGroup = `${task.workspaceId}/batch ${task.batch}`
  if (sandbox !== undefined && !(await isSandboxAvailable(tx, sandbox))) {
    const until = new Date(Date.now() + sandboxWaitMs)
    const detail = `No worker offers ${sandbox}.`
    await deferTask(tx, task, stage, { reason: 'sandbox', detail, until: until.toISOString() })
    await enqueue(tx, sandboxWatchJobType, payload, { id: sandboxWatchJobId(task), fairGroup, runAt: until })
    return
  }
  await enqueue(tx, stageJobType(sandbox), payload, {
    id: stageJobId(payload),
    fairGroup,
    limitKeys: [
      ...listLimitKeys(stages[stage].needs, task.generation),
      ...(sandbox === undefined ? [toGenerationKey(task.workspaceId)] : []),
    ],
    memoryMb: sandbox === undefined ? undefined : (stages[stage].memoryMb ?? GENERATED_LIMITS.memoryMb),
    runAt,
  })
}

const isSandboxAvailable = async (tx: Db, sandbox: string): Promise<boolean> =>
  (await listLiveCapabilities(tx)).some((capability) => capability.sandbox === sandbox && capability.available)

/** Lists the limit keys of a stage. They are those of trials, so that both share a credential's limit. */
const listLimitKeys = (needs: readonly Need[], generation: StoredGeneration): string[] => {
  const keys: Record<Need, string> = {
    sandbox: `sandbox ${generation.sandboxCredentialId}`,
    harbor: `sandbox ${generation.harborCredentialId}`,
    author: `model ${generation.keys.author}`,
    verifier: `model ${generation.keys.verifier}`,
  }
  return needs.map((need) => keys[need])
}

type TaskInStage = Awaited<ReturnType<typeof listTasksInProgress>>[number]

const toJobIds = (batch: string, tasks: readonly TaskInStage[]): string[] =>
  tasks.flatMap(({ id, stage }) => (isStage(stage) ? listJobIds({ batch, task: id, stage }) : []))

/** Lists every job of a batch that may be queued or running. */
export const listStageJobs = async (db: Db, batch: string): Promise<string[]> =>
  toJobIds(batch, await listTasksInProgress(db, batch))

/** Lists the jobs of deferred tasks. */
export const listDeferredJobs = async (db: Db, batch: string): Promise<string[]> =>
  toJobIds(
    batch,
    (await listTasksInProgress(db, batch)).filter(({ deferral }) => deferral !== null),
  )

/** Returns true if an open batch uses the model. */
export const isModelInUse = (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  hasOpenBatchWithModel(db, workspaceId, catalogId)
