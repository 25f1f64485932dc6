import { printable } from '../src/platform/terminal-text.ts'

const HANDLED_FIELDS = ['level', 'time', 'msg', 'error']

/** Formats JSON log lines for people and collapses repeated lines. */
export function createLogPrinter(write: (line: string) => void): (json: string) => void {
  let last = ''
  return (json) => {
    const text = formatLine(json)
    if (text !== last) write(`${text}\n`)
    last = text
  }
}

function formatLine(json: string): string {
  const entry: Record<string, unknown> = JSON.parse(json)
  const facts = Object.entries(entry).filter(([name]) => !HANDLED_FIELDS.includes(name))
  const error = findMessage(entry.error)
  const parts = [`${entry.level}:`, entry.msg, ...facts.map(([name, value]) => `${name}=${toText(value)}`)]
  return printable(`${parts.join(' ')}${error ? `: ${error}` : ''}`)
}

const toText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** Some Node errors have a code but no message. */
function findMessage(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return error === undefined ? undefined : String(error)
  const message = 'message' in error && error.message ? String(error.message) : ''
  return message || ('code' in error ? String(error.code) : undefined)
}
