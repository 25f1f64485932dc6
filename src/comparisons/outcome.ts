import { z } from 'zod'
import type { Db } from '../platform/db/db.ts'
import type { Usage } from './shapes/schema.ts'
import { type EndedTrials, listEndedTrials, listRepositorySettings, listRepositoryTasks } from './sql.ts'

/** Token counts of one trial. */
export type OutcomeUsage = z.infer<typeof Usage>

/** Resource limits of a sandbox. Null means unlimited. */
type OutcomeResources = { cpus: number | null; memoryMb: number | null; diskMb: number | null }

/** Formats the key of a trial as text. A reused trial has the key of the trial that ran. */
const formatTrialKey = (comparison: number, ordinal: number): string => `${comparison}/${ordinal}`

export function parseTrialKey(key: string): { comparison: number; ordinal: number } {
  const [comparison, ordinal] = key.split('/').map(Number)
  return { comparison: comparison ?? 0, ordinal: ordinal ?? 0 }
}

/** A finished trial with the conditions under which it ran. */
export type TrialOutcome = {
  setting: string
  /** Digest of the task's content. */
  task: string
  /** Key of the trial that ran, see `formatTrialKey`. */
  trial: string
  comparison: number
  /** Time at which the comparison was created, in milliseconds since 1970. */
  comparedAt: number
  attempt: number
  state: 'passed' | 'failed' | 'errored'
  isVoided: boolean
  harnessVersion: string
  sandbox: string
  verifyMode: string | null
  isolation: string | null
  costMicros: number | null
  costSource: string | null
  usage: OutcomeUsage | null
  /** Limits of the sandbox. Null for trials from before limits were recorded. */
  resources: OutcomeResources | null
  /** Duration of the agent phase. Null if it was not recorded. */
  agentSeconds: number | null
}

/** A setting as one comparison ran it. */
export type RunSetting = Awaited<ReturnType<typeof listRepositorySettings>>[number]

// Values were validated when they were written. Validating every row again would be slow.
const UncheckedUsage = z.custom<OutcomeUsage | null>()
const UncheckedResources = z.custom<OutcomeResources | null>()

/** Loads all finished trials on a repository's tasks, and the settings of each of its comparisons, oldest comparison first. */
export async function loadOutcomes(
  db: Db,
  repository: number,
): Promise<{ settings: RunSetting[]; outcomes: TrialOutcome[] }> {
  const settings = await listRepositorySettings(db, repository)
  const tasks = Map.groupBy(await listRepositoryTasks(db, repository), ({ comparison }) => comparison)
  const groups = await listEndedTrials(db, [...new Set(settings.map(({ comparison }) => comparison))])
  const outcomes = groups.flatMap((group) => {
    const { comparison, setting: position } = group
    const setting = settings.find((each) => each.comparison === comparison && each.position === position)
    const digests = new Map(tasks.get(comparison)?.map((task) => [task.position, task.digest]))
    return setting
      ? group.tasks.map((taskPosition, index) => toOutcome(group, index, setting, digests.get(taskPosition) ?? ''))
      : []
  })
  return { settings, outcomes }
}

function toOutcome(group: EndedTrials, index: number, setting: RunSetting, taskDigest: string): TrialOutcome {
  const pick = <T>(values: readonly T[]): T | null => values[index] ?? null
  const costMicros = pick(group.cost_micros)
  return {
    setting: setting.id,
    task: taskDigest,
    trial: formatTrialKey(pick(group.origins) ?? 0, pick(group.ordinals) ?? 0),
    comparison: setting.comparison,
    comparedAt: setting.created_at.getTime(),
    attempt: pick(group.attempts) ?? 0,
    state: pick(group.states) ?? 'errored',
    isVoided: pick(group.voided) ?? false,
    harnessVersion: setting.harness_version,
    sandbox: setting.sandbox,
    verifyMode: pick(group.verify_modes),
    isolation: pick(group.isolations),
    costMicros,
    costSource: pick(group.cost_sources) ?? (costMicros === null ? null : 'none'),
    usage: UncheckedUsage.parse(pick(group.usages)),
    resources: UncheckedResources.parse(pick(group.resources)),
    agentSeconds: pick(group.agent_seconds),
  }
}
