import type { Release } from '../releases/shapes/schema.ts'
import type { Card, HistoryEntry, Line, SettingSummary } from './schema.ts'

/** Public views of one release: the card in the list, and the line of its repository. */
export type PublishedLine<H extends CardSource = CardSource> = { head: H; card: Card; line: Line; isDefault: boolean }

/** The current release of one publisher. */
type CardSource = {
  release: Release
  picks: readonly { id: string; roles: string[] }[]
  /** True if the repository's owner published it. */
  isOwn: boolean
  endorsed: boolean
}

/** Builds the lines of a repository, one per publisher: the default line first, then the newest. */
export function buildLines<H extends CardSource>(heads: readonly H[], fullName: string): PublishedLine<H>[] {
  const defaultHead = findDefault(heads)
  const toLine = (head: H): PublishedLine<H> => {
    const release = { ...head.release, repository: { ...head.release.repository, fullName } }
    const isDefault = head === defaultHead
    return { head, line: { release, endorsed: head.endorsed }, card: toCard(head, release, isDefault), isDefault }
  }
  const others = heads.filter((head) => head !== defaultHead).sort((a, b) => compareReleaseTime(b, a))
  return [...(defaultHead ? [defaultHead] : []), ...others].map(toLine)
}

/** Finds the default line: the owner's own, else the newest endorsed by the owner, else the newest. */
function findDefault<H extends CardSource>(heads: readonly H[]): H | undefined {
  const newestFirst = heads.toSorted((a, b) => compareReleaseTime(b, a))
  return newestFirst.find(({ isOwn }) => isOwn) ?? newestFirst.find(({ endorsed }) => endorsed) ?? newestFirst[0]
}

const compareReleaseTime = (a: CardSource, b: CardSource): number =>
  compare(a.release.releasedAt, b.release.releasedAt) || compare(a.release.releaseId, b.release.releaseId)

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

function toCard({ picks, endorsed }: CardSource, release: Release, defaultLine: boolean): Card {
  const summaries = toSummaries(release)
  return {
    repository: release.repository,
    publisher: release.publisher,
    releaseId: release.releaseId,
    releasedAt: release.releasedAt,
    tasks: release.tasks,
    settings: release.settings.length,
    picks: picks.flatMap(({ id, roles }) => {
      const setting = summaries.get(id)
      return setting ? [{ setting, roles }] : []
    }),
    frontier: toFrontier(release),
    endorsed,
    defaultLine,
  }
}

const toSummaries = ({ settings }: Release): Map<string, SettingSummary> =>
  new Map(
    settings.map(({ id, model: { label }, accuracy, costPerTaskUsd, stats }) => {
      const ci95 = stats.ci95 ? { low: stats.ci95.low, high: stats.ci95.high } : undefined
      return [id, { id, model: { label }, accuracy, costPerTaskUsd, ci95 }]
    }),
  )

const toFrontier = (release: Release): SettingSummary[] => {
  const summaries = toSummaries(release)
  return release.frontier.flatMap((id) => summaries.get(id) ?? [])
}

export const toHistoryEntry = (release: Release & Pick<HistoryEntry, 'withdrawn'>): HistoryEntry => ({
  releaseId: release.releaseId,
  releasedAt: release.releasedAt,
  publisher: release.publisher,
  tasks: release.tasks,
  settings: release.settings.length,
  frontier: toFrontier(release),
  withdrawn: release.withdrawn,
})
