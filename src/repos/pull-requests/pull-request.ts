/** How a pull request was told from other commits. */
export const MARKS = ['merge', 'merge-title', 'squash', 'pull-head', 'trailer', 'rebase', 'code-host'] as const
export type Mark = (typeof MARKS)[number]

/** What somebody had asked for. A stranger's text. */
export type IssueText = { title: string; body: string }

/** A merged pull request, as it landed. Text in it is a stranger's. */
export type PullRequest = {
  /** Undefined: it has none that we know of. */
  number: number | undefined
  title: string
  body: string
  mark: Mark
  author: string
  /** As the code host says. Undefined: nobody says so. */
  isBot: boolean | undefined
  /** Where it came from, when that is told. */
  branch: string | undefined
  /** The branch it went into. Undefined: the default one. */
  into: string | undefined
  mergedAt: Date
  /** The commit that is its end on the default branch. */
  head: string
  /** What was there before: a commit, or `<commit>~n`. */
  base: string
  /** Something newer took it back. */
  isReverted: boolean
  /** How many issues it closes. Undefined: nobody says so. */
  issues: number | undefined
  /** What the first of them say, those of the same repository alone. Only a code host tells. */
  issueTexts: readonly IssueText[]
}

/** Where pull requests come from. Newest first, each landing once. */
export type PullRequests = {
  list(signal: AbortSignal): AsyncIterable<PullRequest>
}
