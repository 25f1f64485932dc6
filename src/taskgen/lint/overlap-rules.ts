import { type LintFacts, type LintFinding, newFinding, type ParsedInstruction } from './finding.ts'
import { parsePatch } from './patch-files.ts'

const LINE_MIN = 40
const SHINGLE = 8
const SHARED_MAX = 0.02

/** Measures how much of the change the text contains. */
export function findOverlap(read: ParsedInstruction, facts: LintFacts): LintFinding[] {
  const gold = parsePatch(facts.source).flatMap(({ blocks }) => blocks)
  const text = removeKnownCode(read.free, facts.issueText)
  return [...findCopiedLines(text, gold), ...findCopiedShingles(text, gold)]
}

const FENCE = /^ {0,3}```[^\n]*\n([\s\S]*?)^ {0,3}```[ \t]*$/gm

/** A reproduction that the issue has too gives nothing away, line by line. */
function removeKnownCode(text: string, issueText: string): string {
  const known = new Set(issueText.split('\n').map(collapseSpace))
  return text.replaceAll(FENCE, (_, code: string) =>
    code
      .split('\n')
      .filter((line) => !known.has(collapseSpace(line)))
      .join('\n'),
  )
}

const collapseSpace = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

function findCopiedLines(text: string, gold: readonly string[]): LintFinding[] {
  const whole = collapseSpace(text)
  const lines = gold.flatMap((block) => block.split('\n')).map(collapseSpace)
  return [...new Set(lines)]
    .filter((line) => line.length >= LINE_MIN && whole.includes(line))
    .map((line) => newFinding('leak_gold_line', 'This line is part of the change.', line))
}

function findCopiedShingles(text: string, gold: readonly string[]): LintFinding[] {
  const known = new Set(gold.flatMap(listShingles))
  const own = listShingles(text)
  const shared = own.filter((each) => known.has(each))
  if (own.length === 0 || shared.length / own.length <= SHARED_MAX) return []
  const percent = ((100 * shared.length) / own.length).toFixed(1)
  const detail = `${percent} % of the text, in runs of ${SHINGLE} words, is code of the change; ${100 * SHARED_MAX} % is the most.`
  return [newFinding('leak_gold_overlap', detail, shared[0])]
}

function listShingles(text: string): string[] {
  const tokens = text.toLowerCase().match(/\w+|[^\s\w]/g) ?? []
  return tokens.slice(SHINGLE - 1).map((_, at) => tokens.slice(at, at + SHINGLE).join(' '))
}
