/** Names come from anywhere. What XML forbids, what turns a line around and what breaks it is left out. */
const UNWANTED = /[\p{Cc}\p{Cs}\u{200e}\u{200f}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{fffe}\u{ffff}\u{2028}\u{2029}]/gu

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** As text or in an attribute of XML. */
export const xml = (text: string): string => plain(text).replaceAll(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')

const plain = (text: string): string => text.toWellFormed().replaceAll(UNWANTED, ' ').trim()

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** So many letters at most, as people count them. */
export function short(text: string, max: number): string {
  const letters = [...graphemes.segment(plain(text).slice(0, 50 * max))].map(({ segment }) => segment)
  const kept = letters.length > max ? [...letters.slice(0, max - 1), '…'] : letters
  // A pile of marks is one letter, and yet has no end.
  return kept.map((letter) => letter.slice(0, 16)).join('')
}

/** About how wide it is, in letters of a plain font: signs of the East take two. */
export const widthOf = (text: string): number =>
  [...graphemes.segment(text)].reduce((sum, { segment }) => sum + (WIDE.test(segment) ? 2 : 1), 0)

const WIDE =
  /[\u{1100}-\u{115f}\u{2e80}-\u{a4cf}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe30}-\u{fe6f}\u{ff00}-\u{ff60}\u{ffe0}-\u{ffe6}\u{1f300}-\u{1faff}]/u

export const percentText = (percent: number): string => `${Math.round(percent * 10) / 10} %`

/** Two digits that say something. */
export function usdText(usd: number): string {
  if (usd === 0) return '$0'
  if (usd >= 100) return `$${Math.round(usd)}`
  return `$${usd >= 1 ? usd.toFixed(2) : Number(usd.toPrecision(2)).toFixed(Math.min(6, 1 - Math.floor(Math.log10(usd))))}`
}
