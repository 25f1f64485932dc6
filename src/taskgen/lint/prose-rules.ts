import { type LintFacts, type LintFinding, newFinding, type ParsedInstruction } from './finding.ts'
import type { PinnedSymbol } from './render-instruction.ts'

const WORDS_MIN = 60
const WORDS_MAX = 600

type ProseRule = (read: ParsedInstruction, facts: LintFacts) => LintFinding[]

/** Rules on the form of an instruction. */
export const proseRules: readonly ProseRule[] = [
  checkLength,
  checkHiddenText,
  checkPictures,
  checkEnglish,
  checkPinnedSymbols,
]

const splitWords = (text: string): string[] => text.match(/[\p{L}\p{N}_]+(?:['’.-][\p{L}\p{N}_]+)*/gu) ?? []

function checkLength({ prose }: ParsedInstruction): LintFinding[] {
  const count = splitWords(prose).length
  const detail = `It has ${count} words, not counting the names; ${WORDS_MIN} to ${WORDS_MAX} are right.`
  if (count < WORDS_MIN) return [newFinding('too_short', detail)]
  return count > WORDS_MAX ? [newFinding('too_long', detail)] : []
}

/** Controls and marks of format, but for the ends of lines. */
const UNSEEN = /(?![\n\t\r])[\p{Cc}\p{Cf}]/u

/** Reviewers must see everything that an agent sees. */
function checkHiddenText({ prose }: ParsedInstruction): LintFinding[] {
  const unseen = UNSEEN.exec(prose)
  const code = unseen?.[0].codePointAt(0)?.toString(16)
  return [
    ...(unseen ? [newFinding('hidden_text', `It has a character that nobody sees: U+${code}.`)] : []),
    ...(prose.includes('<!--')
      ? [newFinding('hidden_text', 'It has a comment that a page does not show.', '<!--')]
      : []),
  ]
}

const PICTURES =
  /!\[[^\]\n]*\]\s?[([]|<(?:img|svg|video)\b|\b(?:see|in|on|from|following|attached|above|below)\s+(?:the\s+)?(?:attached\s+)?(?:screenshot|screen ?shot|image|picture|figure|video)s?\b/i

function checkPictures({ prose }: ParsedInstruction): LintFinding[] {
  const found = PICTURES.exec(prose)
  return found ? [newFinding('image_required', 'It points to a picture, which nobody will have.', found[0])] : []
}

const COMMON = new Set(
  'the a an of to in is are be it and or not that this with for on as by from when if at should must has have will can which but no only than its does do was were been into each any all so such there where how what would after before also without same one instead they their'.split(
    ' ',
  ),
)
const COMMON_SHARE_MIN = 0.14
const FOREIGN_LETTERS_MAX = 0.15
/** Fewer prove nothing. */
const WORDS_TO_TELL = 30

/** Detects English by the share of common words, ignoring code. */
function checkEnglish({ prose }: ParsedInstruction, { isEnglish }: LintFacts): LintFinding[] {
  const text = prose.replaceAll(/```[\s\S]*?(?:```|$)|`[^`\n]*`/g, ' ')
  const words = splitWords(text)
  if (!isEnglish || words.length < WORDS_TO_TELL) return []
  const letters = text.match(/\p{L}/gu) ?? []
  const foreign = letters.filter((letter) => !/[a-z]/i.test(letter)).length / letters.length
  const common = words.filter((word) => COMMON.has(word.toLowerCase())).length / words.length
  return foreign > FOREIGN_LETTERS_MAX || common < COMMON_SHARE_MIN
    ? [newFinding('non_english', 'It does not read as English.', text.trim())]
    : []
}

function checkPinnedSymbols({ whole }: ParsedInstruction, { pinned }: LintFacts): LintFinding[] {
  return pinned
    .filter((symbol) => !isSaid(whole, symbol))
    .map(({ kind, text }) =>
      newFinding('unpinned_symbol', `Nobody could guess this ${kind}, and it is not said.`, text),
    )
}

/** A literal as it is written in code, or as it is read. */
const isSaid = (whole: string, { kind, text }: PinnedSymbol): boolean =>
  whole.includes(text) || (kind === 'literal' && whole.includes(text.replaceAll(/\\(["'`\\])/g, '$1')))
