import { z } from 'zod'
import type { Db } from '../platform/db/db.ts'
import type { Outcome, OutcomeUsage } from './outcome.ts'
import { type Ended, listEnded, listRepositorySettings, listRepositoryTasks } from './sql.ts'

/** A setting as one comparison ran it. */
export type RunSetting = Awaited<ReturnType<typeof listRepositorySettings>>[number]

/** It was checked when it was written, and there are many. */
const Stored = z.custom<OutcomeUsage>()

/** Whatever was tried on the tasks of a repository, by its key. Settings come once for each comparison, oldest first. */
export async function listOutcomes(
  db: Db,
  repository: number,
): Promise<{ settings: RunSetting[]; outcomes: Outcome[] }> {
  const settings = await listRepositorySettings(db, repository)
  const tasks = Map.groupBy(await listRepositoryTasks(db, repository), ({ comparison }) => comparison)
  const groups = await listEnded(db, [...new Set(settings.map(({ comparison }) => comparison))])
  const outcomes = groups.flatMap(({ comparison, setting: position, ended }) => {
    const setting = settings.find((each) => each.comparison === comparison && each.position === position)
    const digests = new Map(tasks.get(comparison)?.map((task) => [task.position, task.digest]))
    return setting ? ended.map((trial) => outcomeOf(trial, setting, digests)) : []
  })
  return { settings, outcomes }
}

function outcomeOf(ended: Ended, setting: RunSetting, digests: ReadonlyMap<number, string>): Outcome {
  const [task, attempt, state, verifyMode, costMicros, costSource, isolation, usage, origin, ordinal, isVoided] = ended
  return {
    setting: setting.id,
    task: digests.get(task) ?? '',
    trial: `${origin}/${ordinal}`,
    comparison: setting.comparison,
    comparedAt: setting.created_at.getTime(),
    attempt,
    state,
    isVoided,
    harnessVersion: setting.harness_version,
    sandbox: setting.sandbox,
    verifyMode,
    isolation,
    costMicros,
    costSource: costSource ?? (costMicros === null ? null : 'none'),
    usage: usage === null ? null : Stored.parse(usage),
  }
}
