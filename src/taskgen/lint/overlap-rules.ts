import { type Finding, finding, type LintFacts, type Read } from './finding.ts'
import { patchedFiles } from './patch-files.ts'

const LINE_MIN = 40
const SHINGLE = 8
const SHARED_MAX = 0.02

/** How much of the change itself stands in the text. */
export function overlap(read: Read, facts: LintFacts): Finding[] {
  const gold = patchedFiles(facts.source).flatMap(({ blocks }) => blocks)
  const text = withoutKnownCode(read.free, facts.issueText)
  return [...goldLines(text, gold), ...shingles(text, gold)]
}

const FENCE = /^ {0,3}```[^\n]*\n([\s\S]*?)^ {0,3}```[ \t]*$/gm

/** A reproduction that the issue has too gives nothing away, line by line. */
function withoutKnownCode(text: string, issueText: string): string {
  const known = new Set(issueText.split('\n').map(spaced))
  return text.replaceAll(FENCE, (_, code: string) =>
    code
      .split('\n')
      .filter((line) => !known.has(spaced(line)))
      .join('\n'),
  )
}

const spaced = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

function goldLines(text: string, gold: readonly string[]): Finding[] {
  const whole = spaced(text)
  const lines = gold.flatMap((block) => block.split('\n')).map(spaced)
  return [...new Set(lines)]
    .filter((line) => line.length >= LINE_MIN && whole.includes(line))
    .map((line) => finding('leak_gold_line', 'This line is part of the change.', line))
}

function shingles(text: string, gold: readonly string[]): Finding[] {
  const known = new Set(gold.flatMap(shinglesOf))
  const own = shinglesOf(text)
  const shared = own.filter((each) => known.has(each))
  if (own.length === 0 || shared.length / own.length <= SHARED_MAX) return []
  const percent = ((100 * shared.length) / own.length).toFixed(1)
  const detail = `${percent} % of the text, in runs of ${SHINGLE} words, is code of the change; ${100 * SHARED_MAX} % is the most.`
  return [finding('leak_gold_overlap', detail, shared[0])]
}

function shinglesOf(text: string): string[] {
  const tokens = text.toLowerCase().match(/\w+|[^\s\w]/g) ?? []
  return tokens.slice(SHINGLE - 1).map((_, at) => tokens.slice(at, at + SHINGLE).join(' '))
}
