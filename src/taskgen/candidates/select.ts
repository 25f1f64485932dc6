import type { PullRequest } from '../../repos/pull-requests/pull-request.ts'
import type { CandidateCounts, Difficulty } from '../schema.ts'
import type { Reason } from './reasons.ts'
import type { CandidateVerdict, ScreenedPullRequest } from './screen-diff.ts'

export type SelectedCandidate = { pullRequest: PullRequest; verdict: CandidateVerdict }

export type CandidateSelection = {
  /** Adds the next result of the scan. Must be called in the order of the scan, newest first. */
  add(result: ScreenedPullRequest): void
  /** Returns true once every requested candidate is selected. */
  isFull(): boolean
  chosen: SelectedCandidate[]
  /** Number of pull requests that were added. */
  discovered: number
  /** Number of pull requests that passed the screening, tried before or not. */
  screened: number
  rejections: Map<Reason, number>
  /** Number of candidates that an earlier batch has tried. */
  tried: Record<Difficulty, number>
  /** Number of candidates that no earlier batch has tried. */
  available: Record<Difficulty, number>
}

/** Selects the newest candidates of each difficulty. A shortfall is not filled from another difficulty. */
export function newSelection(counts: CandidateCounts, isTried: (head: string) => boolean): CandidateSelection {
  const remaining = { ...counts }
  const state: CandidateSelection = {
    chosen: [],
    discovered: 0,
    screened: 0,
    rejections: new Map(),
    tried: { easy: 0, medium: 0, hard: 0 },
    available: { easy: 0, medium: 0, hard: 0 },
    isFull: () => remaining.easy + remaining.medium + remaining.hard === 0,
    add({ pullRequest, verdict }) {
      state.discovered += 1
      if (verdict.kind === 'rejected') {
        state.rejections.set(verdict.reason, (state.rejections.get(verdict.reason) ?? 0) + 1)
        return
      }
      const { difficulty } = verdict
      state.screened += 1
      if (isTried(pullRequest.head)) {
        state.tried[difficulty] += 1
        return
      }
      state.available[difficulty] += 1
      if (remaining[difficulty] === 0) return
      remaining[difficulty] -= 1
      state.chosen.push({ pullRequest, verdict })
    },
  }
  return state
}

const REASONS_SHOWN = 5

/** Explains a shortage of candidates. Empty if there are enough. */
export function listShortfallWarnings(
  counts: CandidateCounts,
  { chosen, discovered, rejections, tried }: CandidateSelection,
): string[] {
  const missing = counts.easy + counts.medium + counts.hard - chosen.length
  if (missing === 0) return []
  if (discovered === 0) return ['No merged pull request was found in the default branch.']
  const triedBefore = tried.easy + tried.medium + tried.hard
  const reasons = [...rejections]
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, REASONS_SHOWN)
    .map(([reason, count]) => `${count} ${reason}`)
  const excluded = [...(triedBefore > 0 ? [`${triedBefore} tried before`] : []), ...reasons].join(', ')
  return [
    `${missing} fewer candidates than requested. ${discovered} pull requests were read. Excluded: ${excluded || 'none'}.`,
  ]
}
