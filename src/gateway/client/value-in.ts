import { parseJson } from '../../harnesses/json.ts'
import type { Json } from '../wire.ts'

/** The value in an answer that was to be JSON, also where words or a fence stand around it. Undefined: there is none. */
export function valueIn(text: string): Json | undefined {
  for (const candidate of [text, fenced(text), braced(text)]) {
    const value = parseJson(candidate)
    if (value !== undefined) return value
  }
  return undefined
}

const FENCE = '```'

function fenced(text: string): string {
  const from = text.indexOf('\n', text.indexOf(FENCE))
  const to = text.indexOf(FENCE, from)
  return from >= 0 && to > from ? text.slice(from, to) : ''
}

function braced(text: string): string {
  const from = text.search(/[[{]/)
  const to = Math.max(text.lastIndexOf('}'), text.lastIndexOf(']'))
  return from >= 0 && to > from ? text.slice(from, to + 1) : ''
}
