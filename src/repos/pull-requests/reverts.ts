/** What was taken back, collected while history is read from its end: a revert comes before what it reverts. */
export type Reverts = { commits: Set<string>; titles: Set<string> }

export const newReverts = (): Reverts => ({ commits: new Set(), titles: new Set() })

type Told = { id: string; titles: readonly string[]; body: string }

/** Whether this one was taken back by something newer. What takes back another is remembered, unless it was itself. */
export function isTakenBack(reverts: Reverts, { id, titles, body }: Told): boolean {
  const named = titles.map(withoutNumber)
  // A title is used up: two of the same name are not both reverted by one revert.
  const isReverted = reverts.commits.has(id) || named.some((title) => reverts.titles.delete(title))
  if (!isReverted) remember(reverts, named, body)
  return isReverted
}

function remember(reverts: Reverts, titles: readonly string[], body: string): void {
  const quoted = titles.map((title) => /^Revert:? "(.+)"$/i.exec(title)?.[1]).find((title) => title !== undefined)
  const ids = [...body.matchAll(/This reverts commit ([0-9a-f]{40,64})/g)].map(([, id = '']) => id)
  for (const id of ids) reverts.commits.add(id)
  // With an id there is no need to guess by the title.
  if (quoted !== undefined && ids.length === 0) reverts.titles.add(withoutNumber(quoted))
}

/** Titles may be long, and mostly spaces: it looks at each once. */
const withoutNumber = (title: string): string => title.replace(/(?<!\s)\s*\(#\d+\)$/, '').trim()
