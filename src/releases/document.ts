import { averageUsd } from '../platform/usd.ts'
import { isShownWorse, toTracks } from '../statistics/paired.ts'
import { computeFrontier, countPassed, listTasks, type SettingResult, sumCostMicros, toUsd } from './aggregate.ts'
import { computeContentHash } from './fingerprint.ts'
import { choosePicks, type SettingPick } from './picks.ts'
import type { Disclosure, Release, ReleaseSetting } from './shapes/schema.ts'
import { computeSettingStats, toScores } from './stats.ts'

/** Content of a release before it has an id and a time. */
export type ReleaseContent = {
  hash: string
  tasks: string[]
  settings: ReleaseSetting[]
  frontier: string[]
  picks: SettingPick[]
}

/** Builds the content from publishable settings, which must be sorted by id. */
export function buildContent(chosen: readonly SettingResult[]): ReleaseContent {
  const hash = computeContentHash(chosen)
  const tasks = listTasks(chosen)
  const frontier = computeFrontier(chosen)
  const stats = computeSettingStats(chosen, hash)
  const settings = chosen.flatMap((result): ReleaseSetting[] => {
    const [settingStats, micros, passed] = [stats.get(result.id), sumCostMicros(result), countPassed(result)]
    if (!settingStats || micros === null) return []
    return [
      {
        ...toSettingNames(result),
        tasks: result.cells.length,
        passed,
        accuracy: (100 * passed) / result.cells.length,
        costPerTaskUsd: averageUsd(micros, result.cells.length),
        totalCostUsd: toUsd(micros),
        onFrontier: frontier.includes(result.id),
        isolation: result.isolation,
        stats: settingStats,
      },
    ]
  })
  return { hash, tasks, settings, frontier, picks: buildPicks(chosen, frontier) }
}

export const toSettingNames = (result: SettingResult) => {
  const { id, model, harness, reasoningLevel, provider, custom, configuration, timeoutMultiplier } = result
  return { id, model, harness, reasoningLevel, provider, custom, configuration, timeoutMultiplier }
}

function buildPicks(chosen: readonly SettingResult[], frontier: readonly string[]): SettingPick[] {
  const byId = new Map(chosen.map((result) => [result.id, result]))
  const candidates = frontier.flatMap((id) => byId.get(id) ?? [])
  const tracks = toTracks(candidates.map(toScores))
  const isWorse = (id: string, than: string): boolean => {
    const [own, other] = [id, than].map((each) => tracks[frontier.indexOf(each)])
    return own !== undefined && other !== undefined && isShownWorse(own, other)
  }
  const numbers = candidates.map((each) => ({ id: each.id, tasks: each.cells.length, passed: countPassed(each) }))
  return choosePicks(numbers, isWorse)
}

export type ReleaseLabel = { [Name in 'releaseId' | 'releasedAt' | 'repository' | 'publisher']: Release[Name] }

/** Builds the public document of a release. */
export const buildRelease = (
  label: ReleaseLabel,
  { tasks, settings, frontier }: ReleaseContent,
  more: { disclosure: Disclosure; prices: Release['prices'] },
): Release => ({
  schemaVersion: 1,
  ...label,
  tasks: tasks.length,
  settings,
  frontier,
  ...more,
})
