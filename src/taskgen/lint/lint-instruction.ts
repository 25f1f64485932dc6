import type { HiddenTests } from '../../grading/suite.ts'
import { parsePatch } from '../candidates/read-diffs.ts'
import { collapseSpace, type ExposedSymbol, renderInterface } from './render-instruction.ts'

/** A violation in an instruction. The rule is also the rejection reason if it blocks. */
export type LintFinding = { rule: LintRule; detail: string; excerpt: string }

type LintRule =
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
}

/** An instruction, taken apart once for all rules. */
type ParsedInstruction = {
  /** Everything except the generated interface section. */
  prose: string
  /** The prose without exposed symbols, which may occur in an instruction and are not leaks. */
  proseWithoutExposed: string
  whole: string
}

const EXCERPT_LENGTH_MAX = 160

const newFinding = (rule: LintRule, detail: string, excerpt = ''): LintFinding => ({
  rule,
  detail,
  excerpt: collapseSpace(excerpt).slice(0, EXCERPT_LENGTH_MAX).toWellFormed(),
})

/** Returns the index of a whole-word match, or -1. */
export function indexOfWord(text: string, word: string): number {
  for (let index = text.indexOf(word); index >= 0; index = text.indexOf(word, index + 1)) {
    if (!isJoined(text[index - 1], word[0]) && !isJoined(text[index + word.length], word.at(-1))) return index
  }
  return -1
}

/** Returns true if two adjacent characters belong to the same word. */
const isJoined = (outside = '', edge = ''): boolean => /\w/.test(outside) && /\w/.test(edge)

/** Matches possible commit ids. A match after a digit and a dot would be part of a number. */
const COMMIT_ID = /(?<![0-9A-Za-z_]|\d\.)[0-9a-f]{7,40}(?![0-9A-Za-z_])/gi

/** Reports commit ids. Ids of unknown commits must have digits and letters, so that numbers and words do not match. */
function listCommits({ proseWithoutExposed }: ParsedInstruction, facts: LintFacts): LintFinding[] {
  return listMatches(proseWithoutExposed, COMMIT_ID)
    .filter(
      (id) => (/\d/.test(id) && /[a-f]/i.test(id)) || facts.commits.some((each) => each.startsWith(id.toLowerCase())),
    )
    .map((id) => newFinding('leak_commit', 'This looks like the id of a commit.', id))
}

const HOSTS = [
  'github.com',
  'githubusercontent.com',
  'github.io',
  'gitlab.com',
  'bitbucket.org',
  'codeberg.org',
  'sourcehut.org',
  'git.sr.ht',
]

function listUrls({ prose }: ParsedInstruction, { upstream }: LintFacts): LintFinding[] {
  const addresses = [...HOSTS, ...upstream]
    .map((address) => address.toLowerCase().replaceAll(/^\w+:\/\/|\/+$/g, ''))
    .filter((address) => address.length >= WORD_LENGTH_MIN)
  const lowerCase = prose.toLowerCase()
  return [...new Set(addresses)]
    .filter((address) => indexOfWord(lowerCase, address) >= 0)
    .map((address) =>
      newFinding(
        'leak_url',
        'This address leads to the original change.',
        excerptAt(prose, indexOfWord(lowerCase, address)),
      ),
    )
}

const NUMBERS = [
  /(?<![\w&/#])#\d{1,7}\b/g,
  /\b(?:prs?|pull requests?|issues?|merge requests?|mrs?|tickets?|gh)[\s-]{0,3}(?:no\.?|numbers?|nr\.?)?\s{0,2}[#!]?\d{1,7}\b/gi,
  /(?<!\w)![1-9]\d{1,6}\b/g,
]

const listNumbers = ({ proseWithoutExposed }: ParsedInstruction): LintFinding[] =>
  NUMBERS.flatMap((pattern) => listMatches(proseWithoutExposed, pattern)).map((text) =>
    newFinding('leak_number', 'This looks like the number of an issue or a pull request.', text),
  )

/** Reports authors. Lower-case single-word logins match only as mentions (`@name`), because many are ordinary words. */
function listAuthors({ proseWithoutExposed }: ParsedInstruction, facts: LintFacts): LintFinding[] {
  const lowerCase = proseWithoutExposed.toLowerCase()
  return facts.authors
    .map((name) => name.trim())
    .filter((name) => name.length >= 3)
    .filter((name) =>
      /^[a-z]+$/.test(name)
        ? indexOfWord(proseWithoutExposed, `@${name}`) >= 0
        : indexOfWord(lowerCase, name.toLowerCase()) >= 0,
    )
    .map((name) => newFinding('leak_author', 'This names an author of the change.', name))
}

const ID_SPLIT = /::| > | › |#|\/| /
const TEST_NAME_LENGTH_MIN = 5

/** Reports whole test ids, and test names that are identifiers and not sentences. */
function listTestIds({ proseWithoutExposed }: ParsedInstruction, { failToPass, exposed }: LintFacts): LintFinding[] {
  const exposedTexts = new Set(exposed.map(({ text }) => text))
  const ids = failToPass.flatMap((id) => {
    const name = (id.split(ID_SPLIT).at(-1) ?? '').replace(/\[.*$/s, '').split('.').at(-1) ?? ''
    const isName =
      name.length >= TEST_NAME_LENGTH_MIN &&
      /^\w+$/.test(name) &&
      /test|_|[a-z][A-Z]/.test(name) &&
      !exposedTexts.has(name)
    return isName ? [id, name] : [id]
  })
  return reportWords('leak_test_id', 'This is the name of a hidden test.', proseWithoutExposed, ids)
}

/** Reports files of the hidden tests. Bare file names match only if they look like tests, because data files have any name. */
function listTestFiles({ proseWithoutExposed }: ParsedInstruction, { hidden, exposed }: LintFacts): LintFinding[] {
  const exposedTexts = new Set(exposed.map(({ text }) => text))
  const paths = [...hidden.files.map(({ path }) => path), ...hidden.deleted]
  const names = paths.map((path) => path.slice(path.lastIndexOf('/') + 1)).filter((name) => /test|spec/i.test(name))
  const all = [...paths, ...names].filter((text) => !exposedTexts.has(text))
  return reportWords('leak_test_file', 'This is a file of the hidden tests.', proseWithoutExposed, all)
}

const TESTS =
  /\b(?:the|these|those|hidden|failing|existing|provided|accompanying|our|unit|regression)\s+(?:(?:new|hidden|failing|existing|unit|updated)\s+)?tests?\b|\btest\s+(?:suites?|files?|cases?)\b/gi

const listTestMentions = ({ proseWithoutExposed }: ParsedInstruction): LintFinding[] =>
  listMatches(proseWithoutExposed, TESTS).map((text) =>
    newFinding('leak_tests', 'An instruction must not mention tests.', text),
  )

/** Shorter words also occur by chance. */
const WORD_LENGTH_MIN = 4

/** Reports each of the words that occurs in the text. */
const reportWords = (rule: LintRule, detail: string, text: string, words: readonly string[]): LintFinding[] =>
  [...new Set(words)]
    .filter((word) => word.length >= WORD_LENGTH_MIN && indexOfWord(text, word) >= 0)
    .map((word) => newFinding(rule, detail, word))

const MATCHES_MAX = 20

const listMatches = (text: string, pattern: RegExp): string[] =>
  [...new Set([...text.matchAll(pattern)].map(([match]) => match))].slice(0, MATCHES_MAX)

const excerptAt = (text: string, at: number): string => text.slice(Math.max(0, at - 20), at + 80)

/** Rules against references to the original change or its tests. */
const leakRules: readonly ((parsed: ParsedInstruction, facts: LintFacts) => LintFinding[])[] = [
  listCommits,
  listUrls,
  listNumbers,
  listAuthors,
  listTestIds,
  listTestFiles,
  listTestMentions,
]

/** Applies every rule to the final text. An empty result means no violations. */
export function lintInstruction(markdown: string, facts: LintFacts): LintFinding[] {
  const parsed = parseInstruction(markdown, facts)
  return [
    ...proseRules.flatMap((rule) => rule(parsed, facts)),
    ...leakRules.flatMap((rule) => rule(parsed, facts)),
    ...listOverlap(parsed, facts),
    ...listInjections(parsed.prose),
  ]
}

/** Recognises the generated interface section by exact match, so that a text cannot imitate it. */
function parseInstruction(markdown: string, { exposed }: LintFacts): ParsedInstruction {
  const block = renderInterface(exposed)
  const prose = block !== '' && markdown.endsWith(block) ? markdown.slice(0, -block.length) : markdown
  const texts = exposed.map(({ text }) => text).filter((text) => text.length >= WORD_LENGTH_MIN)
  const longestFirst = texts.sort((one, other) => other.length - one.length)
  return { whole: markdown, prose, proseWithoutExposed: longestFirst.reduce(removeWord, prose) }
}

/** Removes a word, but not inside a longer word: joins the pieces around it with the word, or else with a space. */
function removeWord(text: string, word: string): string {
  const isInsideWord = (before: string, after: string) => /\w$/.test(before) || /^\w/.test(after)
  return text.split(word).reduce((before, after) => `${before}${isInsideWord(before, after) ? word : ' '}${after}`)
}

const LINE_LENGTH_MIN = 40
/** Number of consecutive words that are compared with the change, and the maximum share of such runs that it contains. */
const SHINGLE_WORDS = 8
const SHARED_SHARE_MAX = 0.02

/** Reports text that is copied from the change. */
function listOverlap(parsed: ParsedInstruction, facts: LintFacts): LintFinding[] {
  const addedBlocks = parsePatch(facts.source).flatMap(({ blocks }) => blocks)
  const text = removeKnownCode(parsed.proseWithoutExposed, facts.issueText)
  return [...listCopiedLines(text, addedBlocks), ...listCopiedShingles(text, addedBlocks)]
}

const FENCE = /^ {0,3}```[^\n]*\n([\s\S]*?)^ {0,3}```[ \t]*$/gm

/** Removes lines of code that the issue contains too, because they reveal nothing. */
function removeKnownCode(text: string, issueText: string): string {
  const known = new Set(issueText.split('\n').map(collapseSpace))
  return text.replaceAll(FENCE, (_, code: string) =>
    code
      .split('\n')
      .filter((line) => !known.has(collapseSpace(line)))
      .join('\n'),
  )
}

function listCopiedLines(text: string, addedBlocks: readonly string[]): LintFinding[] {
  const whole = collapseSpace(text)
  const lines = addedBlocks.flatMap((block) => block.split('\n')).map(collapseSpace)
  return [...new Set(lines)]
    .filter((line) => line.length >= LINE_LENGTH_MIN && whole.includes(line))
    .map((line) => newFinding('leak_gold_line', 'This line is part of the change.', line))
}

function listCopiedShingles(text: string, addedBlocks: readonly string[]): LintFinding[] {
  const changeShingles = new Set(addedBlocks.flatMap(listShingles))
  const shingles = listShingles(text)
  const shared = shingles.filter((each) => changeShingles.has(each))
  if (shingles.length === 0 || shared.length / shingles.length <= SHARED_SHARE_MAX) return []
  const percent = ((100 * shared.length) / shingles.length).toFixed(1)
  const detail = `${percent} % of the text, in runs of ${SHINGLE_WORDS} words, is code of the change; at most ${100 * SHARED_SHARE_MAX} % is allowed.`
  return [newFinding('leak_gold_overlap', detail, shared[0])]
}

function listShingles(text: string): string[] {
  const tokens = text.toLowerCase().match(/\w+|[^\s\w]/g) ?? []
  return tokens.slice(SHINGLE_WORDS - 1).map((_, at) => tokens.slice(at, at + SHINGLE_WORDS).join(' '))
}

const WORDS_MIN = 60
const WORDS_MAX = 600

type ProseRule = (parsed: ParsedInstruction, facts: LintFacts) => LintFinding[]

/** Rules on the form of an instruction. */
const proseRules: readonly ProseRule[] = [
  checkLength,
  checkHiddenText,
  checkPictures,
  checkEnglish,
  checkExposedSymbols,
]

const splitWords = (text: string): string[] => text.match(/[\p{L}\p{N}_]+(?:['’.-][\p{L}\p{N}_]+)*/gu) ?? []

function checkLength({ prose }: ParsedInstruction): LintFinding[] {
  const count = splitWords(prose).length
  const detail = `The instruction has ${count} words without the interface section; ${WORDS_MIN} to ${WORDS_MAX} are allowed.`
  if (count < WORDS_MIN) return [newFinding('too_short', detail)]
  return count > WORDS_MAX ? [newFinding('too_long', detail)] : []
}

/** Control and format characters, except line ends. */
const INVISIBLE = /(?![\n\t\r])[\p{Cc}\p{Cf}]/u

/** Reviewers must see everything that an agent sees. */
function checkHiddenText({ prose }: ParsedInstruction): LintFinding[] {
  const invisible = INVISIBLE.exec(prose)
  const code = invisible?.[0].codePointAt(0)?.toString(16)
  return [
    ...(invisible ? [newFinding('hidden_text', `It contains an invisible character: U+${code}.`)] : []),
    ...(prose.includes('<!--')
      ? [newFinding('hidden_text', 'It contains an HTML comment, which is not displayed.', '<!--')]
      : []),
  ]
}

const IMAGE_REFERENCE =
  /!\[[^\]\n]*\]\s?[([]|<(?:img|svg|video)\b|\b(?:see|in|on|from|following|attached|above|below)\s+(?:the\s+)?(?:attached\s+)?(?:screenshot|screen ?shot|image|picture|figure|video)s?\b/i

function checkPictures({ prose }: ParsedInstruction): LintFinding[] {
  const reference = IMAGE_REFERENCE.exec(prose)
  return reference
    ? [newFinding('image_required', 'It refers to a picture, which agents do not get.', reference[0])]
    : []
}

const COMMON_WORDS = new Set(
  'the a an of to in is are be it and or not that this with for on as by from when if at should must has have will can which but no only than its does do was were been into each any all so such there where how what would after before also without same one instead they their'.split(
    ' ',
  ),
)
/** Minimum share of common words in English prose, and maximum share of letters other than a to z. */
const COMMON_SHARE_MIN = 0.14
const FOREIGN_SHARE_MAX = 0.15
/** Minimum number of words for a decision. */
const WORDS_FOR_DECISION_MIN = 30

/** Detects English by the share of common words, ignoring code. */
function checkEnglish({ prose }: ParsedInstruction): LintFinding[] {
  const text = prose.replaceAll(/```[\s\S]*?(?:```|$)|`[^`\n]*`/g, ' ')
  const words = splitWords(text)
  if (words.length < WORDS_FOR_DECISION_MIN) return []
  const letters = text.match(/\p{L}/gu) ?? []
  const foreignShare = letters.filter((letter) => !/[a-z]/i.test(letter)).length / letters.length
  const commonShare = words.filter((word) => COMMON_WORDS.has(word.toLowerCase())).length / words.length
  return foreignShare > FOREIGN_SHARE_MAX || commonShare < COMMON_SHARE_MIN
    ? [newFinding('non_english', 'It does not read as English.', text.trim())]
    : []
}

function checkExposedSymbols({ whole }: ParsedInstruction, { exposed }: LintFacts): LintFinding[] {
  return exposed
    .filter((symbol) => !isStated(whole, symbol))
    .map(({ kind, text }) =>
      newFinding(
        'unpinned_symbol',
        `A solver could not guess this ${kind}, and the instruction does not state it.`,
        text,
      ),
    )
}

/** Returns true if the text contains a symbol. A literal may also be written without the backslashes of its code. */
const isStated = (whole: string, { kind, text }: ExposedSymbol): boolean =>
  whole.includes(text) || (kind === 'literal' && whole.includes(text.replaceAll(/\\(["'`\\])/g, '$1')))

/** Phrases that address a model rather than a reader. */
const INJECTION_PHRASES = [
  /\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|preceding|system|all)\b[^.\n]{0,30}\b(?:instructions?|prompts?|rules?|messages?|directions?)\b/i,
  /\byou are (?:now|no longer)\b[^.\n]{0,60}\b(?:assistant|model|ai|agent|author|reviewer|mode)\b/i,
  /\b(?:system|developer) prompt\b/i,
  /\b(?:reveal|print|repeat|leak|exfiltrate)\b[^.\n]{0,40}\b(?:prompt|instructions|api key|secret|token)\b/i,
  /<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[\/?INST\]|^[ \t]{0,20}(?:#{1,6}[ \t]{1,5})?(?:system|assistant)[ \t]{0,5}:/im,
  /\bas an? (?:ai|language model|llm)\b/i,
  /\b(?:answer|respond|reply|output|return)\b[^.\n]{0,30}\b(?:yes to (?:all|every)|only with|exactly the following|pass for every)\b/i,
  /\b(?:note|message|instructions?) (?:to|for) (?:the )?(?:ai|llm|model|grader|reviewer bot|assistant)\b/i,
]

const TEXT_LENGTH_MAX = 200_000

/** Lists text that may be a prompt injection, for the reviewer. Models get it as data and have no tools. */
export const listInjections = (text: string): LintFinding[] =>
  INJECTION_PHRASES.flatMap((phrase) => {
    const match = phrase.exec(text.slice(0, TEXT_LENGTH_MAX))
    return match ? [newFinding('injection', 'This seems to be meant for a model.', match[0])] : []
  })
