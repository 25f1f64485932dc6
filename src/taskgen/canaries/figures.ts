/** `defects`, `controls`: what a verifier made of them. `traps`, `written`: what an author did. */
const GROUPS = ['defects', 'controls', 'traps', 'written'] as const
type Group = (typeof GROUPS)[number]

export type Result = {
  group: Group
  name: string
  task: string
  /** The reason for which a defect should be turned down. */
  expected: string | null
  /** `unread`: an answer came, and counts for nothing. `unasked`: there was nobody to ask. */
  outcome: 'right' | 'wrong' | 'unread' | 'unasked'
  /** What it was turned down for. */
  reason: string | null
  detail: string
}

export type Figure = {
  group: Group
  of: number
  /** Caught, accepted, avoided. */
  right: number
  /** Missed, or a false alarm. */
  wrong: number
  unread: number
  unasked: number
  /** Of the right ones, those for the very reason. Only of defects. */
  named: number | null
  /** Of all that there are: what nobody could read was not right. Null: not measured, because some were not asked. */
  rate: number | null
  /** What a model must reach. Null: it is shown, and nothing follows from it. */
  target: number | null
}

/** How many tasks come of an author's instructions is no promise of the author's. */
const TARGETS: Record<Group, number | null> = { defects: 0.9, controls: 0.9, traps: 0.9, written: null }

export const figures = (results: readonly Result[]): Figure[] => GROUPS.map((group) => figureOf(results, group))

function figureOf(results: readonly Result[], group: Group): Figure {
  const own = results.filter((result) => result.group === group)
  const count = (outcome: Result['outcome']) => own.filter((result) => result.outcome === outcome).length
  const [right, unasked] = [count('right'), count('unasked')]
  const named = own.filter(({ outcome, expected, reason }) => outcome === 'right' && expected === reason).length
  return {
    ...{ group, of: own.length, right, wrong: count('wrong'), unread: count('unread'), unasked },
    named: group === 'defects' ? named : null,
    rate: unasked > 0 || own.length === 0 ? null : right / own.length,
    target: TARGETS[group],
  }
}

/** Nothing that has a target is below it, and nothing was left out. */
export const isEnough = (all: readonly Figure[]): boolean =>
  all.every(({ rate, target }) => target === null || (rate !== null && rate >= target))
