/** Names that differ by more than this share of their letters are not suggested. */
const DISTANCE_SHARE_MAX = 0.4
const LENGTH_MAX = 200

/** Returns the known name that a mistyped one most likely means, or undefined if none is close. */
function findClosestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > LENGTH_MAX) return undefined
  const ranked = known
    .map((each) => ({ each, distance: editDistance(name.toLowerCase(), each.toLowerCase()) }))
    .sort((one, other) => one.distance - other.distance)
  const [best] = ranked
  return best && best.distance <= Math.max(1, Math.floor(best.each.length * DISTANCE_SHARE_MAX)) ? best.each : undefined
}

/** Returns a question for an error message, with a space before it, or an empty text if no name is close. */
export function suggestName(name: string, known: readonly string[]): string {
  const closest = findClosestName(name, known)
  return closest === undefined ? '' : ` Did you mean ${closest}?`
}

/** Counts the insertions, deletions, substitutions and swaps of neighbours that turn one text into the other. */
function editDistance(one: string, other: string): number {
  const rows: number[][] = [Array.from({ length: other.length + 1 }, (_, at) => at)]
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    for (let column = 1; column <= other.length; column++) current.push(computeDistance(rows, current, { one, other }))
    rows.push(current)
  }
  return rows.at(-1)?.at(-1) ?? 0
}

/** Computes the next entry of `current`, the row that follows `rows` in the table of the Damerau–Levenshtein distance. */
function computeDistance(rows: number[][], current: number[], { one, other }: { one: string; other: string }): number {
  const [row, column] = [rows.length, current.length]
  const above = rows[row - 1] ?? []
  const isSame = one[row - 1] === other[column - 1]
  const isSwap = row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
  return Math.min(
    (above[column] ?? 0) + 1,
    (current[column - 1] ?? 0) + 1,
    (above[column - 1] ?? 0) + (isSame ? 0 : 1),
    isSwap ? (rows[row - 2]?.[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
  )
}
