/** `defects` and `controls` measure the verifier model; `traps` and `written` measure the author model. */
const GROUPS = ['defects', 'controls', 'traps', 'written'] as const
type CanaryGroup = (typeof GROUPS)[number]

export type CanaryResult = {
  group: CanaryGroup
  name: string
  task: string
  /** Expected rejection reason of a defect. */
  expected: string | null
  /** `unread`: the answer was unusable. `unasked`: no model was available. */
  outcome: 'right' | 'wrong' | 'unread' | 'unasked'
  /** Reason of the rejection. */
  reason: string | null
  detail: string
}

export type CanaryFigure = {
  group: CanaryGroup
  of: number
  /** Caught, accepted, avoided. */
  right: number
  /** Missed, or a false alarm. */
  wrong: number
  unread: number
  unasked: number
  /** Number of correct rejections with the expected reason; defects only. */
  named: number | null
  /** Share of correct results; unusable answers count as incorrect. Null if some canaries were not asked. */
  rate: number | null
  /** Required rate. Null: informational only. */
  target: number | null
}

/** Required rates. `written` is informational only. */
const TARGETS: Record<CanaryGroup, number | null> = { defects: 0.9, controls: 0.9, traps: 0.9, written: null }

export const computeFigures = (results: readonly CanaryResult[]): CanaryFigure[] =>
  GROUPS.map((group) => computeFigure(results, group))

function computeFigure(results: readonly CanaryResult[], group: CanaryGroup): CanaryFigure {
  const own = results.filter((result) => result.group === group)
  const count = (outcome: CanaryResult['outcome']) => own.filter((result) => result.outcome === outcome).length
  const [right, unasked] = [count('right'), count('unasked')]
  const named = own.filter(({ outcome, expected, reason }) => outcome === 'right' && expected === reason).length
  return {
    group,
    of: own.length,
    right,
    wrong: count('wrong'),
    unread: count('unread'),
    unasked,
    named: group === 'defects' ? named : null,
    rate: unasked > 0 || own.length === 0 ? null : right / own.length,
    target: TARGETS[group],
  }
}

/** Returns whether every figure with a target reaches it. A figure with unasked canaries does not. */
export const meetsTargets = (all: readonly CanaryFigure[]): boolean =>
  all.every(({ rate, target }) => target === null || (rate !== null && rate >= target))
