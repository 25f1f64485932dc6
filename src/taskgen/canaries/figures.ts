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
  /** Number of canaries in the group. */
  of: number
  /** Defects rejected, controls accepted, traps avoided. */
  right: number
  /** Defects accepted, controls rejected, traps not avoided. */
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
  const inGroup = results.filter((result) => result.group === group)
  const count = (outcome: CanaryResult['outcome']) => inGroup.filter((result) => result.outcome === outcome).length
  const [right, unasked] = [count('right'), count('unasked')]
  const named = inGroup.filter(({ outcome, expected, reason }) => outcome === 'right' && expected === reason).length
  return {
    group,
    of: inGroup.length,
    right,
    wrong: count('wrong'),
    unread: count('unread'),
    unasked,
    named: group === 'defects' ? named : null,
    rate: unasked > 0 || inGroup.length === 0 ? null : right / inGroup.length,
    target: TARGETS[group],
  }
}

/** Returns whether every figure with a target reaches it. A figure with unasked canaries does not. */
export const meetsTargets = (figures: readonly CanaryFigure[]): boolean =>
  figures.every(({ rate, target }) => target === null || (rate !== null && rate >= target))
