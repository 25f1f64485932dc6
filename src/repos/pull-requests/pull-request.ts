/** Marks by which a pull request is recognised. */
export const MARKS = ['merge', 'merge-title', 'squash', 'pull-head', 'trailer', 'rebase', 'code-host'] as const
export type Mark = (typeof MARKS)[number]

/** Text of an issue. Untrusted. */
export type IssueText = { title: string; body: string }

/** A merged pull request. Its texts are untrusted. */
export type PullRequest = {
  /** Undefined if unknown. */
  number: number | undefined
  title: string
  body: string
  /** Mark by which it was recognised. */
  mark: Mark
  author: string
  /** Reported by the code host. Undefined if unknown. */
  isBot: boolean | undefined
  /** Source branch, if known. */
  branch: string | undefined
  /** Target branch. Undefined for the default branch. */
  into: string | undefined
  mergedAt: Date
  /** Last commit of the pull request on the default branch. */
  head: string
  /** State before the pull request: a commit, or `<commit>~n`. */
  base: string
  /** True if a newer commit reverted it. */
  isReverted: boolean
  /** Number of issues that it closes. Undefined if unknown. */
  issues: number | undefined
  /** Texts of the first issues that it closes, of the same repository only. Empty without a code host. */
  issueTexts: readonly IssueText[]
}

/** A source of pull requests. Lists each once, newest first. */
export type PullRequests = {
  list(signal: AbortSignal): AsyncIterable<PullRequest>
}
