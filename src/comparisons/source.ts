import { listApprovedTasks, listTaskStates } from '../batches/approved-tasks.ts'
import { findForFreezing } from '../benchmarks/freeze.ts'
import type { Db } from '../platform/db/db.ts'
import { type FieldError, Problem } from '../platform/problem.ts'
import { type RepositoryTools, requireRepository } from '../repos/repos.ts'
import type { By } from '../workspaces/audit.ts'
import { refuse } from './choices.ts'
import { benchmarkNotAdded } from './schema.ts'
import type { TaskChoice } from './shapes/schema.ts'
import type { Scope } from './sql.ts'

export type ScopeTools = RepositoryTools

type Named = { kind: Scope['kind']; owner: string; name: string }

/** For a write: a repository that everybody can see is connected by it. */
export async function connectedScope(tools: ScopeTools, by: By, { kind, owner, name }: Named): Promise<Scope> {
  if (kind === 'benchmark') return { kind, owner, name, repository: null }
  const row = await requireRepository(tools, by, { workspaceId: by.workspaceId, owner, name })
  return { kind, owner: row.owner, name: row.name, repository: row.key }
}

/** How many tasks, and all that is needed to freeze them, also when nobody offers them any more. */
type Source = { tasks: number; resolved: unknown }

export async function readSource(
  db: Db,
  workspaceId: string,
  scope: Scope,
  choices: readonly TaskChoice[] = [],
): Promise<Source> {
  if (scope.kind === 'repository') return readChosen(db, scope.repository, choices)
  const { owner, name } = scope
  const source = await findForFreezing(db, { workspaceId, datasetOrg: owner, dataset: name })
  if (source) return source
  throw new Problem(benchmarkNotAdded, `The benchmark ${owner}/${name} is not in this workspace. Add it first.`)
}

/** With the digests that were approved: what is decided later is not about this comparison. */
async function readChosen(db: Db, repository: number, choices: readonly TaskChoice[]): Promise<Source> {
  const approved = new Map((await listApprovedTasks(db, repository)).map((task) => [keyOf(task), task]))
  const keys = choices.map(keyOf)
  const tasks = [...new Set(keys)].flatMap((key) => approved.get(key) ?? [])
  if (tasks.length < choices.length) refuse(mistakesIn(keys, approved, await statesIn(db, repository)))
  return {
    tasks: tasks.length,
    resolved: { tasks: tasks.map(({ runId, taskId, digest }) => ({ runId, taskId, digest })) },
  }
}

const keyOf = ({ runId, taskId }: TaskChoice): string => `${runId}/${taskId}`

const statesIn = async (db: Db, repository: number) =>
  new Map((await listTaskStates(db, repository)).map((task) => [keyOf(task), task.state]))

type Known = { has: (key: string) => boolean }

function mistakesIn(keys: readonly string[], approved: Known, states: ReadonlyMap<string, string>): FieldError[] {
  const firstPlaces = new Map(keys.map((key, place) => [key, place] as const).reverse())
  return keys.flatMap((key, place) => {
    const wrong = (code: string, message: string) => [{ pointer: `/tasks/${place}`, code, message }]
    const state = states.get(key)
    if (firstPlaces.get(key) !== place) return wrong('duplicate_task', 'The same task stands here twice.')
    if (approved.has(key)) return []
    if (state === undefined) return wrong('unknown_task', 'The repository has no such task.')
    if (state !== 'ready') return wrong('task_not_ready', `The task is ${state}.`)
    return wrong('task_not_approved', 'Nobody has approved this task.')
  })
}
