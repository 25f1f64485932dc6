import { z } from 'zod'
import type { Db } from '../platform/db/db.ts'
import { formatTrialKey, type OutcomeResources, type OutcomeUsage, type TrialOutcome } from './outcome.ts'
import { type EndedTrials, listEndedTrials, listRepositorySettings, listRepositoryTasks } from './sql.ts'

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
  const at = <T>(values: readonly T[]): T | null => values[index] ?? null
  const costMicros = at(group.cost_micros)
  return {
    setting: setting.id,
    task: taskDigest,
    trial: formatTrialKey(at(group.origins) ?? 0, at(group.ordinals) ?? 0),
    comparison: setting.comparison,
    comparedAt: setting.created_at.getTime(),
    attempt: at(group.attempts) ?? 0,
    state: at(group.states) ?? 'errored',
    isVoided: at(group.voided) ?? false,
    harnessVersion: setting.harness_version,
    sandbox: setting.sandbox,
    verifyMode: at(group.verify_modes),
    isolation: at(group.isolations),
    costMicros,
    costSource: at(group.cost_sources) ?? (costMicros === null ? null : 'none'),
    usage: UncheckedUsage.parse(at(group.usages)),
    resources: UncheckedResources.parse(at(group.resources)),
    agentSeconds: at(group.agent_seconds),
  }
}
