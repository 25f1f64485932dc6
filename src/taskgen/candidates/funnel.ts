import { MARKS, type Mark } from '../../repos/pull-requests/pull-request.ts'
import type { Difficulty } from '../schema.ts'
import { REASON_CODES, REASONS, type Reason } from './reasons.ts'
import type { Features, ScreenedPullRequest } from './screen-diff.ts'

export type Candidate = {
  number: number | null
  title: string
  mergedAt: string
  head: string
  base: string
  difficulty: Difficulty
  features: Features
}

type RejectionExample = { number: number | null; title: string; evidence: string }

/** Counts of recognised pull requests, candidates and rejections by reason. */
export type Funnel = {
  recognised: number
  marks: { mark: Mark; count: number }[]
  candidates: Record<Difficulty, number>
  rejections: { reason: Reason; meaning: string; count: number; examples: RejectionExample[] }[]
}

const EXAMPLES_MAX = 3
const TITLE_LENGTH_MAX = 200

type FunnelCounter = { add(screened: ScreenedPullRequest): void; funnel(): Funnel }

export function newFunnelCounter(): FunnelCounter {
  const marks = new Map<Mark, number>()
  const candidates: Record<Difficulty, number> = { easy: 0, medium: 0, hard: 0 }
  const rejections = new Map<Reason, { count: number; examples: RejectionExample[] }>()
  let recognised = 0
  return {
    add({ pullRequest, verdict }) {
      recognised += 1
      marks.set(pullRequest.mark, (marks.get(pullRequest.mark) ?? 0) + 1)
      if (verdict.kind === 'candidate') {
        candidates[verdict.difficulty] += 1
        return
      }
      const { count, examples } = rejections.get(verdict.reason) ?? { count: 0, examples: [] }
      if (count < EXAMPLES_MAX) examples.push({ ...identify(pullRequest), evidence: verdict.evidence })
      rejections.set(verdict.reason, { count: count + 1, examples })
    },
    funnel: () => ({
      recognised,
      candidates,
      marks: MARKS.map((mark) => ({ mark, count: marks.get(mark) ?? 0 })).filter(({ count }) => count > 0),
      rejections: REASON_CODES.flatMap((reason) => {
        const counted = rejections.get(reason)
        return counted ? [{ reason, meaning: REASONS[reason], ...counted }] : []
      }),
    }),
  }
}

export function toCandidate({ pullRequest, verdict }: ScreenedPullRequest): Candidate | undefined {
  if (verdict.kind !== 'candidate') return undefined
  const { mergedAt, head, base } = pullRequest
  const { difficulty, features } = verdict
  return { ...identify(pullRequest), mergedAt: mergedAt.toISOString(), head, base, difficulty, features }
}

const identify = ({ number, title }: ScreenedPullRequest['pullRequest']) => ({
  number: number ?? null,
  title: title.slice(0, TITLE_LENGTH_MAX),
})
