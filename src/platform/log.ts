import { writeSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { escapeJson } from './terminal-text.ts'

export type Log = Logger
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Names under which a secret could stand. They are blanked wherever they appear in a line, two levels deep. */
const SECRET_NAMES = ['authorization', 'cookie', 'key', 'secret', 'password', 'token', 'apiKey', 'connectionString']

/** JSON lines on standard error; standard output is for what a person asked to see. */
export const createLog = (level: LogLevel, write: (line: string) => void = toStandardError()): Log =>
  pino(
    {
      level,
      base: null,
      timestamp: timeOf,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_NAMES.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '…' },
      serializers: { error: describeError },
    },
    { write: (line) => write(escapeJson(line)) },
  )

const GATHERED_CHARACTERS = 16_384
const GATHERED_MS = 100
/** Whoever does not read loses lines; the service goes on. */
const UNREAD_BYTES_MAX = 16 * 1024 * 1024

let standardError: ((line: string) => void) | undefined

/** The same for all logs of this process. */
function toStandardError(): (line: string) => void {
  standardError ??= gathered()
  return standardError
}

/** Lines are written many at a time, soon, and at the end of the process: a write for each costs more than its line. */
function gathered(): (line: string) => void {
  let lines = ''
  let dropped = 0
  const destination = pino.destination({ fd: 2, sync: false, maxLength: UNREAD_BYTES_MAX })
  destination.on('drop', (text: string) => {
    dropped += text.length
  })
  const flush = () => {
    const note = dropped === 0 ? '' : `{"level":"warn"${timeOf()},"bytes":${dropped},"msg":"nobody read the log"}\n`
    dropped = 0
    if (note + lines !== '') destination.write(note + lines)
    lines = ''
  }
  setInterval(flush, GATHERED_MS).unref()
  process.once('exit', () => writeLast(lines))
  return (line) => {
    lines += line
    if (lines.length >= GATHERED_CHARACTERS) flush()
  }
}

function writeLast(lines: string): void {
  try {
    writeSync(2, lines)
  } catch {
    // Nobody reads any more.
  }
}

let millisecond = 0
let written = ''

/** Many lines fall into one millisecond; its name is written once. */
function timeOf(): string {
  const now = Date.now()
  if (now !== millisecond) {
    millisecond = now
    written = `,"time":"${new Date(now).toISOString()}"`
  }
  return written
}

/** Message, code and stack; never the other members, where libraries put requests and rows. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return {
    type: error.name,
    message: error.message,
    ...(code ? { code } : {}),
    stack: error.stack,
    ...(error.cause ? { cause: describeError(error.cause) } : {}),
  }
}
