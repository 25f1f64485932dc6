import type { Release, ReleaseSetting } from '../../../src/releases/shapes/schema.ts'

/** A setting in two releases. One of the two is missing if the setting is new or was dropped. */
export type SettingChange = { id: string; before?: ReleaseSetting | undefined; after?: ReleaseSetting | undefined }

export type ReleaseChanges = {
  settings: SettingChange[]
  added: number
  removed: number
  enteredFrontier: ReleaseSetting[]
  leftFrontier: ReleaseSetting[]
  /** Number of tasks after minus number of tasks before. */
  taskDifference: number
}

/** Compares two releases setting by setting: changed ones first, and the most accurate first among them and the others. */
export function compareReleases(from: Release, to: Release): ReleaseChanges {
  const ids = [...new Set([...to.settings, ...from.settings].map(({ id }) => id))]
  const settings = ids
    .map((id): SettingChange => ({ id, before: findSetting(from, id), after: findSetting(to, id) }))
    .toSorted((a, b) => Number(isChanged(b)) - Number(isChanged(a)) || toAccuracy(b) - toAccuracy(a))
  return {
    settings,
    added: settings.filter(({ before }) => !before).length,
    removed: settings.filter(({ after }) => !after).length,
    enteredFrontier: settings.flatMap(({ before, after }) => (after?.onFrontier && !before?.onFrontier ? [after] : [])),
    leftFrontier: settings.flatMap(({ before, after }) => (before?.onFrontier && !after?.onFrontier ? [before] : [])),
    taskDifference: to.tasks - from.tasks,
  }
}

const findSetting = ({ settings }: Release, id: string): ReleaseSetting | undefined =>
  settings.find((setting) => setting.id === id)

/** True if the setting is new or dropped, joined or left the frontier, or changed by more than noise. */
const isChanged = ({ before, after }: SettingChange): boolean =>
  !before || !after || before.onFrontier !== after.onFrontier || !isWithinNoise(before, after)

const toAccuracy = ({ before, after }: SettingChange): number => (after ?? before)?.accuracy ?? 0

/** True if the intervals of both releases overlap or one has none, so that the change can be noise. */
export function isWithinNoise(before: ReleaseSetting, after: ReleaseSetting): boolean {
  const [a, b] = [before.stats.ci95, after.stats.ci95]
  return !a || !b || (a.low <= b.high && b.low <= a.high)
}
