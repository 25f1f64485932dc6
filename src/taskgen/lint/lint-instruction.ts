import type { Finding, LintFacts, Read } from './finding.ts'
import { injectionPhrases } from './injection.ts'
import { leakRules } from './leak-rules.ts'
import { overlap } from './overlap-rules.ts'
import { proseRules } from './prose-rules.ts'
import { interfaceBlock } from './render-instruction.ts'

/** Every rule, on the very text that an agent will get. Nothing: it may go on. */
export function lintInstruction(markdown: string, facts: LintFacts): Finding[] {
  const read = readOf(markdown, facts)
  return [
    ...proseRules.flatMap((rule) => rule(read, facts)),
    ...leakRules.flatMap((rule) => rule(read, facts)),
    ...overlap(read, facts),
    ...injectionPhrases(read.prose),
  ]
}

/** Our own part is told by being exactly ours, and by nothing that a text could pretend. */
function readOf(markdown: string, { pinned }: LintFacts): Read {
  const block = interfaceBlock(pinned)
  const prose = block !== '' && markdown.endsWith(block) ? markdown.slice(0, -block.length) : markdown
  const texts = pinned.map(({ text }) => text).filter((text) => text.length >= PINNED_MIN)
  const longestFirst = texts.sort((one, other) => other.length - one.length)
  return { whole: markdown, prose, free: longestFirst.reduce(withoutWord, prose) }
}

/** A name inside of a longer one is no mention of it, and must not hide what it is a part of. */
const withoutWord = (text: string, word: string): string =>
  text.split(word).reduce((before, after) => `${before}${/\w$/.test(before) || /^\w/.test(after) ? word : ' '}${after}`)

/** A text that is shorter says nothing by itself, and would tear holes into words. */
const PINNED_MIN = 4
