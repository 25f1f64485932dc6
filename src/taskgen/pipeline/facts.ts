import { createHash } from 'node:crypto'
import { countUncountedSpend, type GranteeRef, takeSpendMicros } from '../../gateway/spend/spend.ts'
import type { Json } from '../../harnesses/json.ts'
import type { Db } from '../../platform/db/db.ts'
import { isOpen, type StageEvidence, TaskContent } from '../schema.ts'
import { StoredGeneration } from './resolve.ts'
import { addSpend, deletePassedStages, findTaskRow, listPassedStages, type TaskKey } from './sql.ts'
import { CandidateFacts, type CandidateState, FIRST_REVIEWED_STAGE, isStage, STAGES, type StageName } from './stage.ts'

type TaskFactsRow = NonNullable<Awaited<ReturnType<typeof findTaskRow>>>

/** A task in progress at one of its stages. */
export type TaskFacts = TaskKey & {
  stage: StageName
  /** The task waits for its next attempt at this stage. */
  isDeferred: boolean
  /** Number of deferrals at this stage. */
  deferrals: number
  candidate: CandidateFacts
  generation: StoredGeneration
  budgetMicros: number | null
  workspaceId: string
  repository: Pick<
    TaskFactsRow,
    'key' | 'owner' | 'name' | 'source_kind' | 'url' | 'credential_id' | 'visibility' | 'workspaceId'
  >
  digest: string | null
  content: TaskContent | null
  /** Instruction edited by a person. Null if it was not edited. */
  editedInstruction: string | null
}

/** Finds a task in progress; undefined if it is finished or its batch has stopped. */
export async function findTaskInProgress(db: Db, key: TaskKey): Promise<TaskFacts | undefined> {
  const row = await findTaskRow(db, key)
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
    editedInstruction: row.instruction,
    content: row.content === null ? null : TaskContent.parse(row.content),
  }
}

/** Loads the outputs of all passed stages. */
export async function loadCandidateState(
  db: Db,
  facts: TaskFacts,
): Promise<{ state: CandidateState; concerns: string[] }> {
  const passed = await listPassedStages(db, facts)
  const { keys: _, ...generation } = facts.generation
  const { digest, content } = facts
  return {
    concerns: passed.flatMap(({ result }) => result.concerns ?? []),
    state: {
      taskId: facts.task,
      candidate: facts.candidate,
      generation,
      edited: facts.editedInstruction,
      outputs: Object.fromEntries(passed.map(({ stage, result }) => [stage, result.output])),
      files:
        digest === null || content === null ? null : { digest, executableDigest: hashExceptInstruction(content.files) },
    },
  }
}

/** Lists the evidence of all passed stages in pipeline order. */
export async function listStageEvidence(db: Db, batch: string, task: string): Promise<StageEvidence[]> {
  const passed = await listPassedStages(db, { batch, task })
  const names: readonly string[] = STAGES
  const positionOf = (stage: string) => names.indexOf(stage)
  return passed
    .toSorted((one, other) => positionOf(one.stage) - positionOf(other.stage))
    .map(({ stage, is_reused, passed_at, seconds, result }) => ({
      stage,
      passedAt: passed_at.toISOString(),
      seconds,
      reused: is_reused,
      evidence: result.evidence,
    }))
}

/** Deletes evidence about a previous version of the instruction. */
export async function deleteReviewEvidence(tx: Db, batch: string, task: string): Promise<void> {
  await deletePassedStages(tx, { batch, task }, STAGES.slice(STAGES.indexOf(FIRST_REVIEWED_STAGE)))
}

const ROLES = ['author', 'verifier'] as const
export type ModelRole = (typeof ROLES)[number]

/** Returns the grantee of the grants of a task. */
export const granteeOf = ({ batch, task }: TaskKey, role: ModelRole): string => `batch ${batch} ${task} ${role}`

/** Returns the id of the budget that all models of a batch share. */
export const toBatchBudgetId = (batch: string): string => `batch ${batch}`

const GRANTEE = /^batch ([0-9a-f-]{36}) (\S+) (author|verifier)$/

/** Counts the task's spend since the last count, in the transaction that stores the result. */
export async function countSpend(tx: Db, key: TaskKey & { workspaceId: string }): Promise<void> {
  let micros = 0
  for (const role of ROLES)
    micros += await takeSpendMicros(tx, { workspaceId: key.workspaceId, grantee: granteeOf(key, role) })
  if (micros > 0) await addSpend(tx, key, micros)
}

/** Counts spend of canceled tasks and of tasks whose worker died. */
export const countRemainingSpend = (db: Db): Promise<void> => countUncountedSpend(db, countSpendOfGrantee)

async function countSpendOfGrantee(tx: Db, { grantee }: GranteeRef, take: () => Promise<number>): Promise<void> {
  const [, batch, task] = GRANTEE.exec(grantee) ?? []
  if (batch === undefined || task === undefined) return
  // The spend of a task in progress is counted when its stage is settled.
  if (await findTaskInProgress(tx, { batch, task })) return
  await addSpend(tx, { batch, task }, await take())
}

type StageInput = { stage: string; version: number; inputs: Json }

/** Hashes the input of a stage independently of key order. */
export const hashInput = ({ stage, version, inputs }: StageInput): string =>
  createHash('sha256')
    .update(JSON.stringify([stage, version, sortKeys(inputs)]))
    .digest('hex')

function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (typeof value !== 'object' || value === null) return value
  const names = Object.keys(value).sort()
  return Object.fromEntries(names.map((name) => [name, sortKeys(value[name] ?? null)]))
}

type TaskFileDigest = { path: string; sha256: string; executable: boolean }

export const INSTRUCTION_FILE = 'instruction.md'

/** Hashes all files except the instruction: everything that is executed. */
const hashExceptInstruction = (files: readonly TaskFileDigest[]): string =>
  createHash('sha256')
    .update(
      JSON.stringify(
        files
          .filter(({ path }) => path !== INSTRUCTION_FILE)
          .map(({ path, sha256, executable }) => [path, sha256, executable])
          .toSorted(([one], [other]) => (String(one) < String(other) ? -1 : 1)),
      ),
    )
    .digest('hex')
