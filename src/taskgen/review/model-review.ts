import { z } from 'zod'
import { COVERAGE_ITEM, RUBRIC } from './rubric.ts'
import type { TestAssertion } from './test-assertions.ts'

const SOURCES = ['instruction', 'tests', 'base', 'change'] as const
type QuoteSource = (typeof SOURCES)[number]

const quote = z.string().min(1).max(600)

/** A review as returned by a model. */
export const ModelReview = z.strictObject({
  items: z
    .array(
      z.strictObject({
        item: z.int().min(1).max(RUBRIC.length),
        answer: z.enum(['yes', 'no']),
        quotes: z.array(z.strictObject({ from: z.enum(SOURCES), quote })).max(8),
        why: z.string().max(800),
      }),
    )
    .length(RUBRIC.length),
  /**
   * Keyed by the number of an assertion: the sentence of the instruction that demands it, and a line of the base code
   * if that decides too.
   */
  assertions: z.array(z.strictObject({ number: z.int().min(1), sentence: quote, base: quote.nullable() })).max(200),
  alternative: z.string().max(3_000),
  minutes: z.int().min(1).max(10_000),
})
export type ModelReview = z.infer<typeof ModelReview>

/** The exact texts shown to the reviewer, against which quotes are checked. */
export type ReviewMaterial = Record<QuoteSource, string>

/** Minimum length of a quote. Shorter ones would match anywhere. */
const QUOTE_MIN = 6
export const SENTENCE_MIN = 12
const ALTERNATIVE_MIN = 40

type Quoted = { from: QuoteSource; quote: string; min: number }

/**
 * Lists assertions of the tests for which a review names no sentence, although it says that each follows from one. A
 * review that denies it has already given the reason.
 */
export function listUncovered(
  { items, assertions }: ModelReview,
  required: readonly TestAssertion[],
): readonly TestAssertion[] {
  if (items.some(({ item, answer }) => item === COVERAGE_ITEM && answer === 'no')) return []
  const covered = new Set(assertions.map(({ number }) => number))
  return required.filter(({ number }) => !covered.has(number))
}

/** Lists faults that make a review unusable: missing answers or quotes that do not occur. */
export function listReviewFaults(reading: ModelReview, material: ReviewMaterial): string[] {
  const texts = Object.fromEntries(SOURCES.map((source) => [source, collapseSpace(material[source])]))
  const isQuoted = ({ from, quote: text, min }: Quoted) =>
    collapseSpace(text).length >= min && (texts[from] ?? '').includes(collapseSpace(text))
  const quotes: Quoted[] = [
    ...reading.items.flatMap((each) => each.quotes.map((given) => ({ ...given, min: QUOTE_MIN }))),
    ...reading.assertions.flatMap(({ sentence, base }) => [
      { from: 'instruction' as const, quote: sentence, min: SENTENCE_MIN },
      ...(base === null ? [] : [{ from: 'base' as const, quote: base, min: QUOTE_MIN }]),
    ]),
  ]
  const unfound = quotes.filter((each) => !isQuoted(each))
  return [
    ...unfound.map(
      ({ from, quote: text }) => `This does not occur in "${from}", to the letter: ${quoteExcerpt(text)}.`,
    ),
    ...listItemFaults(reading),
  ]
}

function listItemFaults(reading: ModelReview): string[] {
  const answered = new Map(reading.items.map((each) => [each.item, each]))
  return RUBRIC.flatMap(({ item, isBlocker }) => {
    const given = answered.get(item)
    if (!given) return [`Item ${item} is not answered.`]
    const fault = given.answer === 'no' ? findFaultOfNo(given.quotes, isBlocker) : findFaultOfYes(item, reading)
    return fault === undefined ? [] : [`Item ${item}: ${fault}`]
  })
}

function findFaultOfNo(quotes: ModelReview['items'][number]['quotes'], isBlocker: boolean): string | undefined {
  if (quotes.length === 0) return 'a no needs a quote that shows it.'
  return isBlocker && !quotes.some(({ from }) => from === 'tests') ? 'a no needs a quote from "tests".' : undefined
}

function findFaultOfYes(item: number, { assertions, alternative }: ModelReview): string | undefined {
  if (item === COVERAGE_ITEM && assertions.length === 0) return '"assertions" is empty.'
  return item === 4 && alternative.trim().length < ALTERNATIVE_MIN ? '"alternative" sketches nothing.' : undefined
}

export const collapseSpace = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

const quoteExcerpt = (text: string): string => JSON.stringify(text.slice(0, 160).toWellFormed())
