import type { PullRequest } from '../../repos/pull-requests/pull-request.ts'
import { type Rejection, rejected } from './reasons.ts'
import { choreOf, isBotBranch, isBotName } from './titles.ts'

const DAY_MS = 86_400_000
const SETTLED_DAYS = 7
const ISSUES_MAX = 3

export type TextContext = { now: Date; defaultBranch: string }

/** What a pull request says of itself is enough to leave it out. Nothing was read of its files yet. */
export function screenText(pullRequest: PullRequest, { now, defaultBranch }: TextContext): Rejection | undefined {
  const { into, title, isReverted, mergedAt, issues } = pullRequest
  if (into !== undefined && into !== defaultBranch) return rejected('not_default_branch', into)
  const bot = botOf(pullRequest)
  if (bot !== undefined) return rejected('bot', bot)
  const chore = choreOf(title)
  if (chore !== undefined) return rejected('chore_title', `${chore}: ${title}`)
  if (isReverted) return rejected('reverted', title)
  if (issues !== undefined && issues > ISSUES_MAX) return rejected('many_issues', `${issues} issues`)
  const isSettled = now.getTime() - mergedAt.getTime() >= SETTLED_DAYS * DAY_MS
  return isSettled ? undefined : rejected('too_new', mergedAt.toISOString())
}

/** Who made a merge commit is who merged it: there only the branch tells. The code host knows it best. */
function botOf({ author, branch, isBot, mark }: PullRequest): string | undefined {
  if (isBot !== undefined) return isBot ? author : undefined
  if (branch !== undefined && isBotBranch(branch)) return branch
  const isAuthors = mark === 'squash' || mark === 'rebase' || mark === 'trailer'
  return isAuthors && isBotName(author) ? author : undefined
}
