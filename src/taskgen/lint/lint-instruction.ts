import type { LintFacts, LintFinding, ParsedInstruction } from './finding.ts'
import { findInjections } from './injection.ts'
import { leakRules } from './leak-rules.ts'
import { findOverlap } from './overlap-rules.ts'
import { proseRules } from './prose-rules.ts'
import { renderInterface } from './render-instruction.ts'

/** Applies every rule to the final text. An empty result means no violations. */
export function lintInstruction(markdown: string, facts: LintFacts): LintFinding[] {
  const read = parseInstruction(markdown, facts)
  return [
    ...proseRules.flatMap((rule) => rule(read, facts)),
    ...leakRules.flatMap((rule) => rule(read, facts)),
    ...findOverlap(read, facts),
    ...findInjections(read.prose),
  ]
}

/** Recognises the generated interface section by exact match, so that a text cannot imitate it. */
function parseInstruction(markdown: string, { pinned }: LintFacts): ParsedInstruction {
  const block = renderInterface(pinned)
  const prose = block !== '' && markdown.endsWith(block) ? markdown.slice(0, -block.length) : markdown
  const texts = pinned.map(({ text }) => text).filter((text) => text.length >= PINNED_MIN)
  const longestFirst = texts.sort((one, other) => other.length - one.length)
  return { whole: markdown, prose, free: longestFirst.reduce(removeWord, prose) }
}

/** A name inside of a longer one is no mention of it, and must not hide what it is a part of. */
const removeWord = (text: string, word: string): string =>
  text.split(word).reduce((before, after) => `${before}${/\w$/.test(before) || /^\w/.test(after) ? word : ' '}${after}`)

/** A text that is shorter says nothing by itself, and would tear holes into words. */
const PINNED_MIN = 4
