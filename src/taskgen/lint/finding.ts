import type { HiddenTests } from '../../grading/suite.ts'
import type { PinnedSymbol } from './render-instruction.ts'

/** What is wrong with an instruction. A rule that blocks is also the reason for which a candidate is rejected. */
export type Finding = { rule: Rule; detail: string; excerpt: string }

export type Rule =
  | 'too_short'
  | 'too_long'
  | 'hidden_text'
  | 'leak_commit'
  | 'leak_url'
  | 'leak_number'
  | 'leak_author'
  | 'leak_test_id'
  | 'leak_test_file'
  | 'leak_tests'
  | 'leak_gold_line'
  | 'leak_gold_overlap'
  | 'unpinned_symbol'
  | 'non_english'
  | 'image_required'
  /** A person looks at it. It blocks nothing: somebody may just be writing about prompts. */
  | 'injection'

export const isBlocking = ({ rule }: Finding): boolean => rule !== 'injection'

/** What an instruction must not give away, and what it must say. */
export type LintFacts = {
  pinned: readonly PinnedSymbol[]
  /** The change itself, as a patch. */
  source: string
  hidden: HiddenTests
  failToPass: readonly string[]
  /** Names, logins and addresses of who wrote the change. */
  authors: readonly string[]
  /** Where the repository comes from: `github.com`, `acme/parser`. */
  upstream: readonly string[]
  /** Full ids of commits that are known to belong to the change. */
  commits: readonly string[]
  /** What strangers wrote. Code that stands in it may stand in a reproduction. */
  issueText: string
  /** False: the repository speaks another language, and so may its tasks. */
  isEnglish: boolean
}

/** An instruction, taken apart once for all rules. */
export type Read = {
  /** Everything but our own part on names. */
  prose: string
  /** The prose without texts that are pinned: those are ours to say. */
  free: string
  whole: string
}

const EXCERPT_MAX = 160

export const finding = (rule: Rule, detail: string, excerpt = ''): Finding => ({
  rule,
  detail,
  excerpt: excerpt.replaceAll(/\s+/g, ' ').trim().slice(0, EXCERPT_MAX).toWellFormed(),
})
