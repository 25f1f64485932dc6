import { printable } from '../src/platform/terminal-text.ts'

const SHOWN_ELSEWHERE = ['level', 'time', 'msg', 'error']

/** Formats JSON log lines for people and collapses repeated lines. */
export function logLines(write: (line: string) => void): (json: string) => void {
  let last = ''
  return (json) => {
    const text = lineOf(json)
    if (text !== last) write(`${text}\n`)
    last = text
  }
}

function lineOf(json: string): string {
  const entry: Record<string, unknown> = JSON.parse(json)
  const facts = Object.entries(entry).filter(([name]) => !SHOWN_ELSEWHERE.includes(name))
  const error = messageOf(entry.error)
  const parts = [`${entry.level}:`, entry.msg, ...facts.map(([name, value]) => `${name}=${textOf(value)}`)]
  return printable(`${parts.join(' ')}${error ? `: ${error}` : ''}`)
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** Some Node errors have a code but no message. */
function messageOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return error === undefined ? undefined : String(error)
  const message = 'message' in error && error.message ? String(error.message) : ''
  return message || ('code' in error ? String(error.code) : undefined)
}
