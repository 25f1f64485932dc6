/** Verdicts that were reached by other rules are not kept. Raise it with every change of what is screened. */
export const SCREEN_VERSION = 2

/** Why a pull request is no candidate, in the order in which it is asked. `docs/batches.md` lists the same. */
export const REASONS = {
  not_default_branch: 'It was merged into another branch than the default one.',
  no_base: 'What was there before it is not in this clone.',
  bot: 'A program wrote it.',
  chore_title: 'Its title says that it changes no behaviour, or only carries changes from elsewhere.',
  reverted: 'Something newer took it back.',
  too_new: 'It was merged less than a week ago: it may yet be reverted.',
  many_issues: 'It closes more than three issues at once.',
  duplicate: 'The same pull request, or the same change, landed again later.',
  empty: 'It changes nothing.',
  submodule: 'It changes a submodule.',
  symlink: 'It changes a symbolic link.',
  binary: 'It changes a binary file, or one that lies in Git LFS.',
  docs_only: 'It changes documentation alone.',
  dependencies_only: 'It changes versions of dependencies alone.',
  generated_only: 'What it changes of code is generated or vendored.',
  tests_only: 'It changes tests and no source.',
  no_source: 'It changes no source code: settings, data, CI.',
  inline_tests: 'Its only tests stand inside of source files, where they cannot be split off yet.',
  no_tests: 'It changes no test, or only deletes some, or only their data.',
  cosmetic: 'Its source changes in white space and comments alone.',
  too_small: 'Fewer than three lines of source change.',
  too_large: 'It changes too many files or lines, or a very large file.',
} as const

export type Reason = keyof typeof REASONS

const isReason = (name: string): name is Reason => Object.hasOwn(REASONS, name)
export const REASON_CODES: readonly Reason[] = Object.keys(REASONS).filter(isReason)

export type ScreenRejection = { kind: 'rejected'; reason: Reason; evidence: string }

const EVIDENCE_MAX = 120

/** Evidence quotes untrusted text, so it is truncated and control characters are replaced. */
export const rejectCandidate = (reason: Reason, evidence: string): ScreenRejection => ({
  kind: 'rejected',
  reason,
  evidence: (evidence.length > EVIDENCE_MAX ? `${evidence.slice(0, EVIDENCE_MAX - 1)}…` : evidence).replaceAll(
    /\p{C}/gu,
    '?',
  ),
})
