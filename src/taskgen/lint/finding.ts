import type { HiddenTests } from '../../grading/suite.ts'
import { collapseSpace, type ExposedSymbol } from './render-instruction.ts'

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
  exposed: readonly ExposedSymbol[]
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
  /** False if the instructions of this repository may be in another language. */
  isEnglish: boolean
}

/** An instruction, taken apart once for all rules. */
export type ParsedInstruction = {
  /** Everything except the generated interface section. */
  prose: string
  /** The prose without exposed symbols, which may occur in an instruction and are not leaks. */
  proseWithoutExposed: string
  whole: string
}

const EXCERPT_MAX = 160

export const newFinding = (rule: LintRule, detail: string, excerpt = ''): LintFinding => ({
  rule,
  detail,
  excerpt: collapseSpace(excerpt).slice(0, EXCERPT_MAX).toWellFormed(),
})

/** Returns the index of a whole-word match, or -1. */
export function indexOfWord(text: string, word: string): number {
  for (let index = text.indexOf(word); index >= 0; index = text.indexOf(word, index + 1)) {
    if (!isJoined(text[index - 1], word[0]) && !isJoined(text[index + word.length], word.at(-1))) return index
  }
  return -1
}

/** True if two adjacent characters belong to the same word. */
const isJoined = (outside = '', edge = ''): boolean => /\w/.test(outside) && /\w/.test(edge)
