import { listApprovedTasks } from '../batches/tasks.ts'
import type { TrialOutcome } from '../comparisons/outcome.ts'
import { toNamedConfiguration } from '../comparisons/status.ts'
import { loadOutcomes, type RunSetting } from '../comparisons/trials/trials.ts'
import type { Db } from '../platform/db/db.ts'
import { buildResults, type SettingFact, type SettingResult } from './aggregate.ts'
import { dedupeTrials } from './cohort.ts'
import { computeFingerprint } from './fingerprint.ts'

/** An approved task of a repository. Tasks with the same content are listed once. */
export type ReleaseTask = { taskId: string; digest: string; archive: string; title: string; difficulty: string | null }

/** Everything that a release of a repository can be built from. */
export type ReleaseFacts = {
  tasks: ReleaseTask[]
  results: SettingResult[]
  fingerprint: string
  /** Totals of all settings except the reference ones. */
  run: RunTotals
}

export type RunTotals = {
  scored: number
  errored: number
  voided: number
  /** Number of tasks that have results and are no longer approved. */
  declined: number
  /** Digests of tasks that have a result in any cohort. */
  scoredTasks: ReadonlySet<string>
  comparisons: number
  from: number | null
  to: number | null
}

/** Loads the approved tasks and all results of a repository. */
export async function loadFacts(db: Db, repository: number): Promise<ReleaseFacts> {
  const listed = await listApprovedTasks(db, repository)
  const tasks = [...new Map(listed.map((task) => [task.digest, task])).values()]
  const { settings, outcomes } = await loadOutcomes(db, repository)
  const approved = new Set(tasks.map(({ digest }) => digest))
  const settingFacts = toSettingFacts(settings)
  const results = buildResults(settingFacts, outcomes, approved)
  const referenceIds = new Set(settingFacts.filter((setting) => setting.isReference).map(({ id }) => id))
  const nonReference = outcomes.filter(({ setting }) => !referenceIds.has(setting))
  return {
    tasks,
    results,
    fingerprint: computeFingerprint(results, approved),
    run: countTotals(nonReference, approved),
  }
}

/** Removes duplicates. The newest comparison describes the setting. */
const toSettingFacts = (settings: readonly RunSetting[]): SettingFact[] => [
  ...new Map(settings.map((setting) => [setting.id, toSettingFact(setting)])).values(),
]

/** Provider of reference settings, which call no model. */
const NO_PROVIDER = 'none'

const toSettingFact = (row: RunSetting): SettingFact => ({
  id: row.id,
  model: { catalogId: row.catalog_id, name: row.name, label: row.label },
  harness: row.harness,
  reasoningLevel: row.reasoning_level,
  provider: row.provider,
  custom: row.custom,
  configuration: toNamedConfiguration(row),
  timeoutMultiplier: row.timeout_multiplier ?? undefined,
  isReference: row.provider === NO_PROVIDER,
})

function countTotals(outcomes: TrialOutcome[], approved: ReadonlySet<string>): RunTotals {
  const counted = dedupeTrials(outcomes)
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
