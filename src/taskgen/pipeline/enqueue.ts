import { z } from 'zod'
import { liveOffers } from '../../catalog/offers.ts'
import { GENERATED_LIMITS } from '../../harbor/default-limits.ts'
import type { Db } from '../../platform/db/db.ts'
import { derivedId } from '../../platform/ids.ts'
import { enqueue, type JobKind } from '../../platform/jobs/jobs.ts'
import type { StoredGeneration } from './resolve.ts'
import { deferTask, type TaskKey } from './sql.ts'
import { type Need, STAGES, type Stage, type StageName, type Stages } from './stage.ts'

const Payload = z.strictObject({ batch: z.uuid(), task: z.string(), stage: z.enum(STAGES) })
export type StagePayload = z.infer<typeof Payload>

/** What breaks this often with all that it needs at hand breaks because of the task. */
const FAILURES_MAX = 3

/** A kind of its own for each sandbox: a worker takes only what it can run. */
export const stageKind = (sandbox: string | undefined): JobKind<StagePayload> => ({
  ...{ kind: sandbox === undefined ? 'batch.stage' : `batch.stage.${sandbox}`, payload: Payload },
  failuresMax: FAILURES_MAX,
})

/** Looks whether the sandbox of a task is on offer by now. */
export const lookKind: JobKind<StagePayload> = { kind: 'batch.look', payload: Payload }

const stageJobId = ({ batch, task, stage }: StagePayload): string => derivedId('batch stage', batch, task, stage)
const lookJobId = ({ batch, task }: TaskKey): string => derivedId('batch look', batch, task)

/** Whatever may wait or run for a task at this stage. */
export const jobIdsOf = (payload: StagePayload): string[] => [stageJobId(payload), lookJobId(payload)]

/** Where its sandboxes run. Undefined: it has none. */
export function placeOf({ needs }: Pick<Stage, 'needs'>, generation: StoredGeneration): string | undefined {
  if (needs.includes('sandbox')) return generation.sandbox
  return needs.includes('harbor') ? generation.harborEnvironment : undefined
}

type Queued = TaskKey & { workspaceId: string; generation: StoredGeneration }
export type EnqueueTools = { stages: Stages; sandboxWaitMs: number }

/** The job of a stage; or, while nobody offers its sandbox, one that looks for it, and the task says that it waits. */
export async function enqueueStage(
  tx: Db,
  { stages, sandboxWaitMs }: EnqueueTools,
  task: Queued,
  stage: StageName,
  runAt?: Date,
): Promise<void> {
  const payload = { batch: task.batch, task: task.task, stage }
  const place = placeOf(stages[stage], task.generation)
  const fairGroup = `${task.workspaceId}/batch ${task.batch}`
  if (place !== undefined && !(await isOffered(tx, place))) {
    const until = new Date(Date.now() + sandboxWaitMs)
    const detail = `No worker offers ${place}.`
    await deferTask(tx, task, stage, { reason: 'sandbox', detail, until: until.toISOString() })
    await enqueue(tx, lookKind, payload, { id: lookJobId(task), fairGroup, runAt: until })
    return
  }
  await enqueue(tx, stageKind(place), payload, {
    ...{ id: stageJobId(payload), fairGroup, limitKeys: limitKeysOf(stages[stage].needs, task.generation) },
    ...(place === undefined ? {} : { weight: { memoryMb: stages[stage].memoryMb ?? GENERATED_LIMITS.memoryMb } }),
    ...(runAt ? { runAt } : {}),
  })
}

const isOffered = async (tx: Db, sandbox: string): Promise<boolean> =>
  (await liveOffers(tx)).some((offer) => offer.sandbox === sandbox && offer.available)

/** The same keys as those of trials: what a credential allows, it allows to both together. */
const limitKeysOf = (needs: readonly Need[], generation: StoredGeneration): string[] => {
  const keys: Record<Need, string> = {
    sandbox: `sandbox ${generation.sandboxCredentialId}`,
    harbor: `sandbox ${generation.harborCredentialId}`,
    author: `model ${generation.keys.author}`,
    verifier: `model ${generation.keys.verifier}`,
  }
  return needs.map((need) => keys[need])
}
