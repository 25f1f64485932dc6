import type { HiddenTests } from '../../grading/suite.ts'
import type { PinnedSymbol } from './render-instruction.ts'

/** A violation in an instruction. The rule is also the rejection reason if it blocks. */
export type LintFinding = { rule: LintRule; detail: string; excerpt: string }

export type LintRule =
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
  /** Shown to the reviewer only: a task may legitimately be about prompts. */
  | 'injection'

export const isBlocking = ({ rule }: LintFinding): boolean => rule !== 'injection'

/** Facts that an instruction must state and must not reveal. */
export type LintFacts = {
  pinned: readonly PinnedSymbol[]
  /** The change itself, as a patch. */
  source: string
  hidden: HiddenTests
  failToPass: readonly string[]
  /** Names, logins and addresses of the authors of the change. */
  authors: readonly string[]
  /** Origin of the repository: `github.com`, `acme/parser`. */
  upstream: readonly string[]
  /** Full ids of commits that are known to belong to the change. */
  commits: readonly string[]
  /** Untrusted PR text. Code in it may appear in a reproduction. */
  issueText: string
  /** Unset if the repository uses another language for its tasks. */
  isEnglish: boolean
}

/** An instruction, taken apart once for all rules. */
export type ParsedInstruction = {
  /** Everything except the generated interface section. */
  prose: string
  /** The prose without pinned texts, which an instruction must contain. */
  free: string
  whole: string
}

const EXCERPT_MAX = 160

export const newFinding = (rule: LintRule, detail: string, excerpt = ''): LintFinding => ({
  rule,
  detail,
  excerpt: excerpt.replaceAll(/\s+/g, ' ').trim().slice(0, EXCERPT_MAX).toWellFormed(),
})

/** Returns the index of a whole-word match, or -1. */
export function indexOfWord(text: string, wanted: string): number {
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) {
    if (!isJoined(text[at - 1], wanted[0]) && !isJoined(text[at + wanted.length], wanted.at(-1))) return at
  }
  return -1
}

const isJoined = (outside = '', edge = ''): boolean => /\w/.test(outside) && /\w/.test(edge)
