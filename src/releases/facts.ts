import { listApprovedTasks } from '../batches/approved-tasks.ts'
import type { Outcome } from '../comparisons/outcome.ts'
import { listOutcomes, type RunSetting } from '../comparisons/outcomes.ts'
import type { Db } from '../platform/db/db.ts'
import { type Result, resultsOf, type SettingFact } from './aggregate.ts'
import { once } from './cohort.ts'
import { fingerprint } from './fingerprint.ts'

/** The approved tasks of a repository, each content once. */
export type ApprovedTask = { taskId: string; digest: string; archive: string; title: string; difficulty: string | null }

/** All that a release of a repository could be made of. */
export type Facts = {
  tasks: ApprovedTask[]
  results: Result[]
  fingerprint: string
  /** Of all settings but the reference. */
  run: Run
}

export type Run = {
  scored: number
  errored: number
  voided: number
  /** Contents that have results and are not approved any more. */
  declined: number
  /** Contents that have a result of any cohort. */
  scoredTasks: ReadonlySet<string>
  comparisons: number
  from: number | null
  to: number | null
}

export async function readFacts(db: Db, repository: number): Promise<Facts> {
  const listed = await listApprovedTasks(db, repository)
  const tasks = [...new Map(listed.map((task) => [task.digest, task])).values()]
  const { settings, outcomes } = await listOutcomes(db, repository)
  const approved = new Set(tasks.map(({ digest }) => digest))
  const named = settingsOf(settings)
  const results = resultsOf(named, outcomes, approved)
  const isReference = new Set(named.filter((setting) => setting.isReference).map(({ id }) => id))
  const own = outcomes.filter(({ setting }) => !isReference.has(setting))
  return { tasks, results, fingerprint: fingerprint(results, approved), run: runOf(own, approved) }
}

/** Each once, as the newest comparison has it. */
const settingsOf = (settings: readonly RunSetting[]): SettingFact[] => [
  ...new Map(settings.map((setting) => [setting.id, factOf(setting)])).values(),
]

/** What has no provider only shows that tasks work. */
const NO_PROVIDER = 'none'

const factOf = (row: RunSetting): SettingFact => ({
  id: row.id,
  model: { catalogId: row.catalog_id, name: row.name, label: row.label },
  ...{ harness: row.harness, reasoningLevel: row.reasoning_level, provider: row.provider, custom: row.custom },
  isReference: row.provider === NO_PROVIDER,
})

function runOf(outcomes: Outcome[], approved: ReadonlySet<string>): Run {
  const counted = once(outcomes)
  const scored = counted.filter(({ state }) => state !== 'errored')
  const scoredTasks = new Set(scored.map(({ task }) => task))
  const times = outcomes.map(({ comparedAt }) => comparedAt)
  return {
    scored: scored.length,
    errored: counted.length - scored.length,
    voided: new Set(outcomes.filter(({ isVoided }) => isVoided).map(({ trial }) => trial)).size,
    declined: [...scoredTasks].filter((task) => !approved.has(task)).length,
    scoredTasks,
    comparisons: new Set(outcomes.map(({ comparison }) => comparison)).size,
    from: times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b)),
    to: times.length === 0 ? null : times.reduce((a, b) => Math.max(a, b)),
  }
}
