import { averageUsd } from '../platform/usd.ts'
import { frontierOf, microsOf, passedOf, type Result, tasksOf, usdOf } from './aggregate.ts'
import { contentHash } from './fingerprint.ts'
import { type Pick, picks } from './picks.ts'
import type { Disclosure, Release, ReleaseSetting } from './shapes/schema.ts'
import { isShownWorse, tracksOf } from './statistics/paired.ts'
import { scoresOf, statsOf } from './statistics/stats.ts'

/** What a release with these settings says, before it has an id and a time. */
export type Content = {
  hash: string
  tasks: string[]
  settings: ReleaseSetting[]
  frontier: string[]
  picks: Pick[]
}

/** Every chosen setting can be published. In the order of their ids. */
export function contentOf(chosen: readonly Result[]): Content {
  const hash = contentHash(chosen)
  const tasks = tasksOf(chosen)
  const frontier = frontierOf(chosen)
  const stats = statsOf(chosen, hash)
  const settings = chosen.flatMap((result): ReleaseSetting[] => {
    const [own, micros, passed] = [stats.get(result.id), microsOf(result), passedOf(result)]
    if (!own || micros === null) return []
    return [
      {
        ...namesOf(result),
        ...{ tasks: result.cells.length, passed, accuracy: (100 * passed) / result.cells.length },
        costPerTaskUsd: averageUsd(micros, result.cells.length),
        totalCostUsd: usdOf(micros),
        onFrontier: frontier.includes(result.id),
        isolation: result.isolation,
        stats: own,
      },
    ]
  })
  return { hash, tasks, settings, frontier, picks: picksOf(chosen, frontier) }
}

export const namesOf = ({ id, model, harness, reasoningLevel, provider, custom }: Result) => ({
  ...{ id, model, harness, reasoningLevel, provider, custom },
})

function picksOf(chosen: readonly Result[], frontier: readonly string[]): Pick[] {
  const byId = new Map(chosen.map((result) => [result.id, result]))
  const candidates = frontier.flatMap((id) => byId.get(id) ?? [])
  const tracks = tracksOf(candidates.map(scoresOf))
  const isWorse = (id: string, than: string): boolean => {
    const [own, other] = [id, than].map((each) => tracks[frontier.indexOf(each)])
    return own !== undefined && other !== undefined && isShownWorse(own, other)
  }
  const numbers = candidates.map((each) => ({ id: each.id, tasks: each.cells.length, passed: passedOf(each) }))
  return picks(numbers, isWorse)
}

export type Label = { [Name in 'releaseId' | 'releasedAt' | 'repository' | 'publisher']: Release[Name] }

/** The release as everybody reads it. */
export const releaseOf = (
  label: Label,
  { tasks, settings, frontier }: Content,
  more: { disclosure: Disclosure; prices: Release['prices'] },
): Release => ({
  schemaVersion: 1,
  ...label,
  tasks: tasks.length,
  settings,
  frontier,
  ...more,
})
