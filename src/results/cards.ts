import type { Release } from '../releases/shapes/schema.ts'
import type { Card, HistoryEntry, Line, SettingSummary } from './schema.ts'

/** What everybody is shown of one release: in the list, and on the page of its repository. */
export type Shown<H extends Head = Head> = { head: H; card: Card; line: Line; isDefault: boolean }

/** What a publisher shows of a repository. */
export type Head = {
  release: Release
  picks: readonly { id: string; roles: string[] }[]
  /** Published by the owner of the repository. */
  isOwn: boolean
  endorsed: boolean
}

/** All publishers of one repository, the one that is shown first in front and then the newest. */
export function shownOf<H extends Head>(heads: readonly H[], fullName: string): Shown<H>[] {
  const first = defaultOf(heads)
  return heads
    .toSorted((a, b) => Number(b === first) - Number(a === first) || byAge(b, a))
    .map((head) => {
      const release = { ...head.release, repository: { ...head.release.repository, fullName } }
      const line = { release, endorsed: head.endorsed }
      return { head, line, card: cardOf(head, release, head === first), isDefault: head === first }
    })
}

/** The owner's own, else the newest that the owner endorses, else the newest. */
function defaultOf(heads: readonly Head[]): Head | undefined {
  const newest = heads.toSorted((a, b) => byAge(b, a))
  return newest.find(({ isOwn }) => isOwn) ?? newest.find(({ endorsed }) => endorsed) ?? newest[0]
}

const byAge = (a: Head, b: Head): number =>
  compare(a.release.releasedAt, b.release.releasedAt) || compare(a.release.releaseId, b.release.releaseId)

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

function cardOf({ picks, endorsed }: Head, release: Release, defaultLine: boolean): Card {
  const summaries = summariesOf(release)
  return {
    ...{ repository: release.repository, publisher: release.publisher },
    ...{ releaseId: release.releaseId, releasedAt: release.releasedAt },
    ...{ tasks: release.tasks, settings: release.settings.length },
    picks: picks.flatMap(({ id, roles }) => {
      const setting = summaries.get(id)
      return setting ? [{ setting, roles }] : []
    }),
    frontier: frontierOf(release),
    ...{ endorsed, defaultLine },
  }
}

const summariesOf = ({ settings }: Release): Map<string, SettingSummary> =>
  new Map(
    settings.map(({ id, model: { label }, accuracy, costPerTaskUsd }) => [
      id,
      { id, model: { label }, accuracy, costPerTaskUsd },
    ]),
  )

const frontierOf = (release: Release): SettingSummary[] => {
  const summaries = summariesOf(release)
  return release.frontier.flatMap((id) => summaries.get(id) ?? [])
}

export const historyEntryOf = (release: Release & Pick<HistoryEntry, 'withdrawn'>): HistoryEntry => ({
  ...{ releaseId: release.releaseId, releasedAt: release.releasedAt, publisher: release.publisher },
  ...{ tasks: release.tasks, settings: release.settings.length, frontier: frontierOf(release) },
  withdrawn: release.withdrawn,
})
