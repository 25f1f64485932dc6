/**
 * Version of the screening rules. Cached verdicts of other versions are discarded. Increment it with every change of
 * the rules.
 */
export const SCREEN_VERSION = 4

/**
 * Reasons why a pull request is not a candidate, in the order in which they are checked. Listed in `docs/batches.md`.
 */
export const REASONS = {
  not_default_branch: 'It was merged into a branch other than the default one.',
  no_base: 'The state before it is not in this clone.',
  bot: 'It was written by a program.',
  chore_title: 'Its title indicates that it changes no behaviour or only carries changes from elsewhere.',
  reverted: 'A newer commit reverted it.',
  too_new: 'It was merged less than a week ago and may still be reverted.',
  many_issues: 'It closes more than three issues.',
  duplicate: 'The same pull request, or the same change, landed again later.',
  empty: 'It changes nothing.',
  submodule: 'It changes a submodule.',
  symlink: 'It changes a symbolic link of the source or the tests.',
  binary: 'It changes a binary file or a file in Git LFS, beside the source or the tests.',
  docs_only: 'It changes only documentation.',
  dependencies_only: 'It changes only versions of dependencies.',
  generated_only: 'The code that it changes is generated or vendored.',
  tests_only: 'It changes tests and no source.',
  no_source: 'It changes no source code, only settings, data or CI.',
  inline_tests: 'Its only tests are inside source files, where they cannot be split off yet.',
  no_tests: 'It changes no test that runs: it only deletes tests, changes their data, or asserts types.',
  cosmetic: 'It changes only white space and comments of the source.',
  too_small: 'It adds a single line of source, in a new file.',
  too_large: 'It changes too many files or lines, or a very large file.',
} as const

export type Reason = keyof typeof REASONS

const isReason = (name: string): name is Reason => Object.hasOwn(REASONS, name)
export const REASON_CODES: readonly Reason[] = Object.keys(REASONS).filter(isReason)

export type ScreenRejection = { kind: 'rejected'; reason: Reason; evidence: string }

const EVIDENCE_LENGTH_MAX = 120

/** Rejects a pull request. Evidence quotes untrusted text, so it is truncated and control characters are replaced. */
export function rejectCandidate(reason: Reason, evidence: string): ScreenRejection {
  const shortened = evidence.length > EVIDENCE_LENGTH_MAX ? `${evidence.slice(0, EVIDENCE_LENGTH_MAX - 1)}…` : evidence
  return { kind: 'rejected', reason, evidence: shortened.replaceAll(/\p{C}/gu, '?') }
}
