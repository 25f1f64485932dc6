import type { PullRequest } from '../../repos/pull-requests/pull-request.ts'
import { rejectCandidate, type ScreenRejection } from './reasons.ts'
import { findChore, isBotBranch, isBotName } from './titles.ts'

const DAY_MS = 86_400_000
const SETTLED_DAYS = 7
const ISSUES_MAX = 3

export type TextContext = { now: Date; defaultBranch: string }

/** Screens a pull request by its metadata, before any file is read. */
export function screenText(pullRequest: PullRequest, { now, defaultBranch }: TextContext): ScreenRejection | undefined {
  const { into, title, isReverted, mergedAt, issues } = pullRequest
  if (into !== undefined && into !== defaultBranch) return rejectCandidate('not_default_branch', into)
  const bot = findBot(pullRequest)
  if (bot !== undefined) return rejectCandidate('bot', bot)
  const chore = findChore(title)
  if (chore !== undefined) return rejectCandidate('chore_title', `${chore}: ${title}`)
  if (isReverted) return rejectCandidate('reverted', title)
  if (issues !== undefined && issues > ISSUES_MAX) return rejectCandidate('many_issues', `${issues} issues`)
  const isSettled = now.getTime() - mergedAt.getTime() >= SETTLED_DAYS * DAY_MS
  return isSettled ? undefined : rejectCandidate('too_new', mergedAt.toISOString())
}

/** The author of a merge commit is the person who merged, so only the branch identifies bots there. */
function findBot({ author, branch, isBot, mark }: PullRequest): string | undefined {
  if (isBot !== undefined) return isBot ? author : undefined
  if (branch !== undefined && isBotBranch(branch)) return branch
  const isAuthors = mark === 'squash' || mark === 'rebase' || mark === 'trailer'
  return isAuthors && isBotName(author) ? author : undefined
}
