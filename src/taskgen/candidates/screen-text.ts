import type { PullRequest } from '../../repos/pull-requests/pull-request.ts'
import { rejectCandidate, type ScreenRejection } from './reasons.ts'

const DAY_MS = 86_400_000
/** Number of days after which a pull request is rarely reverted. */
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

/** Returns the name or branch of a bot. The author of a merge commit is the person who merged, so only its branch counts. */
function findBot({ author, branch, isBot, mark }: PullRequest): string | undefined {
  if (isBot !== undefined) return isBot ? author : undefined
  if (branch !== undefined && isBotBranch(branch)) return branch
  const isAuthorOfCommit = mark === 'squash' || mark === 'rebase' || mark === 'trailer'
  return isAuthorOfCommit && isBotName(author) ? author : undefined
}

/** Prefixes of conventional commits that promise no change of behaviour. `doc:` also names a package, as in Go. */
const CHORE_PREFIX =
  /^(chore|docs|documentation|ci|build|style|tests?|deps?|dependencies|release|typos?|bump|lint|format|i18n|l10n|meta|website)\s*(\([^)]*\))?!?:/i

const CHORES: [kind: string, pattern: RegExp][] = [
  ['prefix', CHORE_PREFIX],
  ['revert', /^revert\b|^\[?revert\]?[:\s]/i],
  [
    'bump',
    /^(bump|upgrade|update|pin)\b.*\b(from \S+ to \S+|to v?\d[\w.]*|version|versions|dependenc\w+|deps|lock ?files?|requirements)$/i,
  ],
  ['bump', /^(bump|build\(deps)/i],
  [
    'release',
    /^(release|prepare (for )?(the )?(next )?release|version|cut|tag)\b[\s:]*v?\d|^v?\d+\.\d+(\.\d+)?\S*$|^(release|prepare release|version bump)$/i,
  ],
  ['backport', /\b(back|forward)[- ]?port|cherry[- ]?pick|^\[(v?\d[\w.]*|stable|backport)[^\]]*\]/i],
  ['merge', /^(merge|sync)\b.*\b(into|branch|from|with|upstream|master|main|stable)\b/i],
  [
    'docs',
    /^(update|fix|improve|add|edit|remove)? ?(the )?(readme|changelog|docs?|documentation|contributing|license|code ?owners|authors|translations?)\b[^:]*$/i,
  ],
  ['typo', /^(fix|correct)?(es|ed|ing|s)? ?(a |some |minor |small )*typos?\b/i],
]

/** Number of characters of a title that are matched. */
const TITLE_LENGTH_MAX = 500

/** Returns the kind of chore that a title announces. */
export function findChore(title: string): string | undefined {
  const text = title.slice(0, TITLE_LENGTH_MAX).trim()
  return CHORES.find(([, pattern]) => pattern.test(text))?.[0]
}

const BOT_NAMES = [
  /\[bot\]$|[-_ ](bot|robot)$/i,
  /^(dependabot|renovate|greenkeeper|snyk-bot|pyup-bot|pyup\.io bot|pre-commit-ci|github-actions?|imgbot|mergify|bors)\b/i,
  /^(allcontributors|codecov|semantic-release-bot|weblate|hosted weblate|transifex|k8s-ci-robot|crowdin|copybara)\b/i,
  /^(whitesource|deepsource|restyled|sourcery-ai)\b/i,
]
const BOT_BRANCHES =
  /^(dependabot|renovate|pyup|snyk|greenkeeper|pre-commit-ci|imgbot|all-contributors|weblate|crowdin|whitesource|restyled)[/_-]/i

export const isBotName = (name: string): boolean => BOT_NAMES.some((pattern) => pattern.test(name.trim()))
export const isBotBranch = (branch: string): boolean => BOT_BRANCHES.test(branch)
