/** Reverted commits, collected while history is read newest first, so that a revert precedes what it reverts. */
export type Reverts = { commits: Set<string>; titles: Set<string> }

export const createReverts = (): Reverts => ({ commits: new Set(), titles: new Set() })

type RevertCandidate = { id: string; titles: readonly string[]; body: string }

/** Tests whether a newer commit reverted this one. Otherwise remembers what this one reverts. */
export function checkReverted(reverts: Reverts, { id, titles, body }: RevertCandidate): boolean {
  const named = titles.map(stripNumber)
  // A revert applies to a single commit of that title.
  const isReverted = reverts.commits.has(id) || named.some((title) => reverts.titles.delete(title))
  if (!isReverted) remember(reverts, named, body)
  return isReverted
}

function remember(reverts: Reverts, titles: readonly string[], body: string): void {
  const quoted = titles.map((title) => /^Revert:? "(.+)"$/i.exec(title)?.[1]).find((title) => title !== undefined)
  const ids = [...body.matchAll(/This reverts commit ([0-9a-f]{40,64})/g)].map(([, id = '']) => id)
  for (const id of ids) reverts.commits.add(id)
  // The title is only a fallback if there is no id.
  if (quoted !== undefined && ids.length === 0) reverts.titles.add(stripNumber(quoted))
}

/** Removes a trailing number. Linear even for long titles of spaces. */
const stripNumber = (title: string): string => title.replace(/(?<!\s)\s*\(#\d+\)$/, '').trim()
