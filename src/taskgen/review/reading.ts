import { z } from 'zod'
import { RUBRIC } from './rubric.ts'

const SOURCES = ['instruction', 'tests', 'base', 'change'] as const
type Source = (typeof SOURCES)[number]

const quote = z.string().min(1).max(600)

/** One reading of a task, as a model gives it. */
export const Reading = z.strictObject({
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
  assertions: z.array(z.strictObject({ assertion: quote, from: z.enum(SOURCES), support: quote })).max(80),
  alternative: z.string().max(3_000),
  minutes: z.int().min(1).max(10_000),
})
export type Reading = z.infer<typeof Reading>

/** What a reading is checked against: exactly what its reader was shown. */
export type Material = Record<Source, string>

/** Shorter ones are found anywhere. */
const QUOTE_MIN = 6
const ALTERNATIVE_MIN = 40

/** What makes a reading worth nothing: it did not read, or does not show what it says. */
export function readingFaults(reading: Reading, material: Material): string[] {
  const texts = Object.fromEntries(SOURCES.map((source) => [source, spaced(material[source])]))
  const isQuoted = (from: Source, text: string) =>
    spaced(text).length >= QUOTE_MIN && (texts[from] ?? '').includes(spaced(text))
  const quotes = [
    ...reading.items.flatMap((each) => each.quotes),
    ...reading.assertions.flatMap(({ assertion, from, support }) => [
      { from: 'tests' as const, quote: assertion },
      { from, quote: support },
    ]),
  ]
  const unfound = quotes.filter(({ from, quote: text }) => !isQuoted(from, text))
  return [
    ...unfound.map(({ from, quote: text }) => `This does not occur in "${from}", to the letter: ${shown(text)}.`),
    ...itemFaults(reading),
  ]
}

function itemFaults(reading: Reading): string[] {
  const answered = new Map(reading.items.map((each) => [each.item, each]))
  return RUBRIC.flatMap(({ item, isBlocker }) => {
    const given = answered.get(item)
    if (!given) return [`Item ${item} is not answered.`]
    const fault = given.answer === 'no' ? faultOfNo(given.quotes, isBlocker) : faultOfYes(item, reading)
    return fault === undefined ? [] : [`Item ${item}: ${fault}`]
  })
}

function faultOfNo(quotes: Reading['items'][number]['quotes'], isBlocker: boolean): string | undefined {
  if (quotes.length === 0) return 'a no needs a quote that shows it.'
  return isBlocker && !quotes.some(({ from }) => from === 'tests') ? 'a no needs a quote from "tests".' : undefined
}

function faultOfYes(item: number, { assertions, alternative }: Reading): string | undefined {
  if (item === 2 && assertions.length === 0) return '"assertions" is empty.'
  return item === 4 && alternative.trim().length < ALTERNATIVE_MIN ? '"alternative" sketches nothing.' : undefined
}

const spaced = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

const shown = (text: string): string => JSON.stringify(text.slice(0, 160).toWellFormed())
