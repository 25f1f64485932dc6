import type { Db } from '../../platform/db/db.ts'
import { isOpen, TaskContent } from '../schema.ts'
import { hashExceptInstruction } from './input-digest.ts'
import { StoredGeneration } from './resolve.ts'
import { findTaskInProgress, listPassed, type TaskKey } from './sql.ts'
import { CandidateFacts, type CandidateState, isStage, type StageName } from './stage.ts'

type TaskFactsRow = NonNullable<Awaited<ReturnType<typeof findTaskInProgress>>>

/** A task in progress at one of its stages. */
export type TaskFacts = TaskKey & {
  stage: StageName
  isDeferred: boolean
  /** Number of deferrals at this stage. */
  deferrals: number
  candidate: CandidateFacts
  generation: StoredGeneration
  budgetMicros: number | null
  workspaceId: string
  repository: Pick<TaskFactsRow, 'key' | 'owner' | 'name' | 'source_kind' | 'url' | 'credential_id' | 'workspaceId'>
  digest: string | null
  content: TaskContent | null
  instruction: string | null
}

/** Finds a task in progress; undefined if it is finished or its batch has stopped. */
export async function findTask(db: Db, key: TaskKey): Promise<TaskFacts | undefined> {
  const row = await findTaskInProgress(db, key)
  if (row?.state !== 'making' || !isStage(row.stage) || !isOpen({ state: row.batchState })) return undefined
  return {
    batch: row.batch,
    task: row.task,
    stage: row.stage,
    workspaceId: row.workspaceId,
    repository: row,
    isDeferred: row.isDeferred,
    deferrals: row.deferrals,
    candidate: CandidateFacts.parse(row.candidate),
    generation: StoredGeneration.parse(row.generation),
    budgetMicros: row.budgetMicros,
    digest: row.digest,
    instruction: row.instruction,
    content: row.content === null ? null : TaskContent.parse(row.content),
  }
}

/** Loads the outputs of all passed stages. */
export async function loadCandidateState(
  db: Db,
  facts: TaskFacts,
): Promise<{ state: CandidateState; concerns: string[] }> {
  const passed = await listPassed(db, facts)
  const { keys: _, ...generation } = facts.generation
  const { digest, content } = facts
  return {
    concerns: passed.flatMap(({ result }) => result.concerns ?? []),
    state: {
      taskId: facts.task,
      candidate: facts.candidate,
      generation,
      edited: facts.instruction,
      outputs: Object.fromEntries(passed.map(({ stage, result }) => [stage, result.made])),
      files: digest === null || content === null ? null : { digest, ground: hashExceptInstruction(content.files) },
    },
  }
}
