import { type Json, parseJson } from '../../harnesses/json.ts'

/** Finds the JSON value in an answer, also inside other text or a code fence. Returns undefined if there is none. */
export function findJsonValue(text: string): Json | undefined {
  for (const candidate of [text, readFence(text), readBraces(text)]) {
    const value = parseJson(candidate)
    if (value !== undefined) return value
  }
  return undefined
}

const FENCE = '```'

function readFence(text: string): string {
  const from = text.indexOf('\n', text.indexOf(FENCE))
  const to = text.indexOf(FENCE, from)
  return from >= 0 && to > from ? text.slice(from, to) : ''
}

function readBraces(text: string): string {
  const from = text.search(/[[{]/)
  const to = Math.max(text.lastIndexOf('}'), text.lastIndexOf(']'))
  return from >= 0 && to > from ? text.slice(from, to + 1) : ''
}
