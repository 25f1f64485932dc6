type Edit = { sign: ' ' | '-' | '+'; line: string }
/** Lines as numbers, the same for the same text: those are compared fast. */
type Numbered = Int32Array

/** Lines around each change. */
const CONTEXT = 3
/** Texts that differ in more lines than this are shown as one taken out and the other put in. */
const EDITS_MAX = 1000

/** How many lines may still be looked at, in all diffs together. Nobody can write files that keep us busy for ever. */
export type Effort = { left: number }

/** The hunks of a unified diff. Empty when nothing differs. A line ends with its newline, or is the last one. */
export function unifiedDiff(before: string, after: string, effort: Effort): string {
  const edits = editsBetween(linesOf(before), linesOf(after), effort)
  const [old, fresh] = [placesOf(edits, '+'), placesOf(edits, '-')]
  return hunksIn(edits)
    .map(({ from, to }) => {
      const ranges = `-${rangeOf(old, from, to)} +${rangeOf(fresh, from, to)}`
      return `@@ ${ranges} @@\n${edits.slice(from, to).map(textOf).join('')}`
    })
    .join('')
}

/** How many lines of a text come before each edit; `other` are the edits without a line of it. */
function placesOf(edits: readonly Edit[], other: Edit['sign']): Int32Array {
  const places = new Int32Array(edits.length + 1)
  for (const [at, { sign }] of edits.entries()) places[at + 1] = (places[at] ?? 0) + (sign === other ? 0 : 1)
  return places
}

function rangeOf(places: Int32Array, from: number, to: number): string {
  const [before = 0, count = 0] = [places[from], (places[to] ?? 0) - (places[from] ?? 0)]
  return `${count === 0 ? before : before + 1},${count}`
}

const textOf = ({ sign, line }: Edit): string =>
  line.endsWith('\n') ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`

const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+/g) ?? []

function editsBetween(before: string[], after: string[], effort: Effort): Edit[] {
  const shared = Math.min(before.length, after.length)
  let first = 0
  while (first < shared && before[first] === after[first]) first += 1
  let last = 0
  while (last < shared - first && before.at(-1 - last) === after.at(-1 - last)) last += 1
  const [old, fresh] = [before.slice(first, before.length - last), after.slice(first, after.length - last)]
  return [
    ...marked(' ', before.slice(0, first)),
    ...(shortestEdits(old, fresh, effort) ?? [...marked('-', old), ...marked('+', fresh)]),
    ...marked(' ', before.slice(before.length - last)),
  ]
}

const marked = (sign: Edit['sign'], lines: string[]): Edit[] => lines.map((line) => ({ sign, line }))

/** After Myers: how far each diagonal comes with so many edits, and the way back. Undefined: too many. */
function shortestEdits(before: string[], after: string[], effort: Effort): Edit[] | undefined {
  const [old, fresh] = numbered(before, after)
  const lines = old.length + fresh.length
  const most = Math.min(lines, EDITS_MAX, Math.max(0, Math.floor(effort.left / (lines + 1))))
  const reach = new Int32Array(2 * most + 3)
  const middle = most + 1
  const rounds: Int32Array[] = []
  for (let edits = 0; edits <= most; edits += 1) {
    effort.left -= lines
    rounds.push(reach.slice(middle - edits - 1, middle + edits + 2))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const x = furthest(reach, middle + diagonal, { old, fresh, diagonal, edits })
      if (x >= old.length && x - diagonal >= fresh.length) return wayBack(rounds, before, after)
    }
  }
  return undefined
}

function numbered(before: string[], after: string[]): [Numbered, Numbered] {
  const numbers = new Map<string, number>()
  const number = (line: string): number => {
    const known = numbers.get(line) ?? numbers.size
    numbers.set(line, known)
    return known
  }
  return [Int32Array.from(before, number), Int32Array.from(after, number)]
}

type Walk = { old: Numbered; fresh: Numbered; diagonal: number; edits: number }

function furthest(reach: Int32Array, at: number, { old, fresh, diagonal, edits }: Walk): number {
  let x = isDown(reach, at, diagonal, edits) ? (reach[at + 1] ?? 0) : (reach[at - 1] ?? 0) + 1
  while (x < old.length && x - diagonal < fresh.length && old[x] === fresh[x - diagonal]) x += 1
  reach[at] = x
  return x
}

/** Whether the last edit put a line in; else it took one out. */
const isDown = (reach: Int32Array, at: number, diagonal: number, edits: number): boolean =>
  diagonal === -edits || (diagonal !== edits && (reach[at - 1] ?? 0) < (reach[at + 1] ?? 0))

/** From the end to the beginning: lines that stay, before them the edit of the round, and so on. */
function wayBack(rounds: readonly Int32Array[], before: string[], after: string[]): Edit[] {
  const parts: Edit[][] = []
  let [x, y] = [before.length, after.length]
  for (const [round, reach] of [...rounds.entries()].slice(1).reverse()) {
    const diagonal = x - y
    const at = diagonal + round + 1
    const down = isDown(reach, at, diagonal, round)
    const fromX = reach[down ? at + 1 : at - 1] ?? 0
    const fromY = fromX - diagonal + (down ? -1 : 1)
    const edit = down ? marked('+', after.slice(fromY, fromY + 1)) : marked('-', before.slice(fromX, fromX + 1))
    parts.push(marked(' ', before.slice(down ? fromX : fromX + 1, x)), edit)
    ;[x, y] = [fromX, fromY]
  }
  parts.push(marked(' ', before.slice(0, x)))
  return parts.reverse().flat()
}

type Hunk = { from: number; to: number }

/** Changes that are near each other are shown together. */
function hunksIn(edits: readonly Edit[]): Hunk[] {
  const hunks: Hunk[] = []
  for (const [at, { sign }] of edits.entries()) {
    if (sign === ' ') continue
    const to = Math.min(edits.length, at + CONTEXT + 1)
    const last = hunks.at(-1)
    if (last && at - CONTEXT <= last.to) last.to = to
    else hunks.push({ from: Math.max(0, at - CONTEXT), to })
  }
  return hunks
}
