import { z } from 'zod'
import { type ApprovedTask, listApprovedTasks, listTaskStates } from '../batches/tasks.ts'
import { findResolvedDataset } from '../benchmarks/benchmarks.ts'
import { formatTaskName } from '../harbor/registries/registry.ts'
import type { Db } from '../platform/db/db.ts'
import { type FieldError, Problem } from '../platform/problem.ts'
import { suggestName } from '../platform/suggestion.ts'
import { type RepositoryDeps, requireRepository } from '../repos/repos.ts'
import type { AuditActor } from '../workspaces/audit.ts'
import { rejectRequest } from './choices.ts'
import type { DifficultyCounts } from './quote.ts'
import { benchmarkNotAdded } from './schema.ts'
import type { TaskChoice } from './shapes/schema.ts'
import type { ComparisonScope } from './sql.ts'

export type ScopeDeps = RepositoryDeps

/** A scope as a path names it. The repository may not be connected yet. */
export type ScopeRef = { kind: ComparisonScope['kind']; owner: string; name: string }

/** Resolves a scope for a write. Connects a public repository that is not connected yet. */
export async function connectScope(
  deps: ScopeDeps,
  by: AuditActor,
  { kind, owner, name }: ScopeRef,
): Promise<ComparisonScope> {
  if (kind === 'benchmark') return { kind, owner, name, repository: null }
  const row = await requireRepository(deps, by, { workspaceId: by.workspaceId, owner, name })
  return { kind, owner: row.owner, name: row.name, repository: row.key }
}

/** Number of tasks, and everything needed to freeze them even if the benchmark or approval is removed later. */
type ComparisonSource = { tasks: number; difficulties: DifficultyCounts; resolved: unknown }

/** The tasks of a comparison: approved ones of a repository, or some of a benchmark. */
export type TaskSelection = { tasks?: readonly TaskChoice[] | undefined; taskNames?: readonly string[] | undefined }

/** Reads the tasks of a comparison. Throws if the benchmark was not added or a selected task cannot be used. */
export async function readSource(
  db: Db,
  workspaceId: string,
  scope: ComparisonScope,
  { tasks = [], taskNames }: TaskSelection = {},
): Promise<ComparisonSource> {
  if (scope.kind === 'repository') return readApprovedSource(db, scope.repository, tasks)
  const { owner, name } = scope
  const source = await findResolvedDataset(db, { workspaceId, datasetOrg: owner, dataset: name })
  if (source) return selectTasks(source, taskNames)
  throw new Problem(benchmarkNotAdded, `The benchmark ${owner}/${name} is not in this workspace. Add it first.`)
}

/**
 * Selects tasks of a benchmark by name. The whole dataset is frozen all the same; the names are stored in `resolved` and
 * applied afterwards by `buildTaskFilter`.
 */
function selectTasks(
  { tasks: all, resolved }: { tasks: number; resolved: unknown },
  taskNames: readonly string[] | undefined,
): ComparisonSource {
  if (taskNames) requireTaskNames(listNames(resolved), taskNames)
  const tasks = taskNames?.length ?? all
  const difficulties = { easy: 0, medium: tasks, hard: 0 }
  return { tasks, difficulties, resolved: taskNames ? Object.assign({}, resolved, { taskNames }) : resolved }
}

const SourceNames = z.object({ tasks: z.array(z.object({ org: z.string(), name: z.string() })) })

const listNames = (resolved: unknown): string[] => SourceNames.parse(resolved).tasks.map(formatTaskName)

function requireTaskNames(known: readonly string[], names: readonly string[]): void {
  const errors = names.flatMap((name, index) => {
    const pointer = `/taskNames/${index}`
    if (names.indexOf(name) !== index)
      return [{ pointer, code: 'duplicate_task', message: 'This task is listed twice.' }]
    if (known.includes(name)) return []
    return [{ pointer, code: 'unknown_task', message: `The benchmark has no task ${name}.${suggestName(name, known)}` }]
  })
  if (errors.length > 0) rejectRequest(errors)
}

const SelectedNames = z.object({ taskNames: z.array(z.string()).optional() })

/** Returns a function that is true for the names of tasks that a stored source selects. */
export function buildTaskFilter(resolved: unknown): (name: string) => boolean {
  const { taskNames } = SelectedNames.parse(resolved)
  const chosen = taskNames && new Set(taskNames)
  return (name) => chosen?.has(name) ?? true
}

const SourceTasks = z.object({
  tasks: z.array(z.object({ digest: z.string(), org: z.string().optional(), name: z.string().optional() })),
})

/** Lists the digests of the tasks. */
export function listDigests({ resolved }: ComparisonSource): string[] {
  const isSelected = buildTaskFilter(resolved)
  return SourceTasks.parse(resolved).tasks.flatMap(({ digest, org = '', name = '' }) =>
    isSelected(formatTaskName({ org, name })) ? [digest] : [],
  )
}

/** Reads chosen tasks with their approved digests. Later decisions do not affect the comparison. */
async function readApprovedSource(
  db: Db,
  repository: number,
  choices: readonly TaskChoice[],
): Promise<ComparisonSource> {
  const approved = new Map((await listApprovedTasks(db, repository)).map((task) => [toTaskKey(task), task]))
  const keys = choices.map(toTaskKey)
  const tasks = [...new Set(keys)].flatMap((key) => approved.get(key) ?? [])
  if (tasks.length < choices.length) rejectRequest(listTaskErrors(keys, approved, await loadTaskStates(db, repository)))
  return {
    tasks: tasks.length,
    difficulties: countDifficulties(tasks),
    resolved: { tasks: tasks.map(({ runId, taskId, digest }) => ({ runId, taskId, digest })) },
  }
}

function countDifficulties(tasks: readonly Pick<ApprovedTask, 'difficulty'>[]): DifficultyCounts {
  const counts = { easy: 0, medium: 0, hard: 0 }
  for (const { difficulty } of tasks) counts[difficulty ?? 'medium'] += 1
  return counts
}

const toTaskKey = ({ runId, taskId }: TaskChoice): string => `${runId}/${taskId}`

const loadTaskStates = async (db: Db, repository: number) =>
  new Map((await listTaskStates(db, repository)).map((task) => [toTaskKey(task), task.state]))

function listTaskErrors(
  keys: readonly string[],
  approved: ReadonlyMap<string, unknown>,
  states: ReadonlyMap<string, string>,
): FieldError[] {
  // Entries are added from the last to the first, so that each key keeps its first index.
  const firstIndexes = new Map(keys.map((key, index) => [key, index] as const).reverse())
  return keys.flatMap((key, index) => {
    const toErrors = (code: string, message: string) => [{ pointer: `/tasks/${index}`, code, message }]
    const state = states.get(key)
    if (firstIndexes.get(key) !== index) return toErrors('duplicate_task', 'This task is listed twice.')
    if (approved.has(key)) return []
    if (state === undefined) return toErrors('unknown_task', 'The repository has no task with this id.')
    if (state !== 'ready') return toErrors('task_not_ready', `The task is ${state}, not ready.`)
    return toErrors('task_not_approved', 'The task is not approved. Approve it first.')
  })
}
