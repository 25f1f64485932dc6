import { writeSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { codeOf } from './errors.ts'
import { escapeJson } from './terminal-text.ts'

export type Log = Logger
type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Field names that may contain a secret. Their values are redacted, up to two levels deep. */
const SECRET_NAMES = ['authorization', 'cookie', 'key', 'secret', 'password', 'token', 'apiKey', 'connectionString']

/** Creates a logger that writes JSON lines to standard error. Standard output is reserved for command results. */
export const createLog = (level: LogLevel, write: (line: string) => void = getStandardErrorWriter()): Log =>
  pino(
    {
      level,
      base: null,
      timestamp: formatTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_NAMES.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '…' },
      serializers: { error: describeError },
    },
    { write: (line) => write(escapeJson(line)) },
  )

const BUFFERED_CHARACTERS_MAX = 16_384
const FLUSH_INTERVAL_MS = 100
/** Maximum size of the lines that wait while standard error is not read. Further lines are dropped. */
const UNREAD_BYTES_MAX = 16 * 1024 * 1024

let standardError: ((line: string) => void) | undefined

/** Returns the writer that all logs of this process share. */
function getStandardErrorWriter(): (line: string) => void {
  standardError ??= createBufferedWriter()
  return standardError
}

/** Buffers lines and writes them together, at most 100 ms later and on exit: one write per line is too expensive. */
function createBufferedWriter(): (line: string) => void {
  let lines = ''
  let droppedBytes = 0
  const destination = pino.destination({ fd: 2, sync: false, maxLength: UNREAD_BYTES_MAX })
  destination.on('drop', (text: string) => {
    droppedBytes += Buffer.byteLength(text)
  })
  const flush = () => {
    const dropNotice =
      droppedBytes === 0
        ? ''
        : `{"level":"warn"${formatTime()},"bytes":${droppedBytes},"msg":"log lines dropped because standard error was not read"}\n`
    droppedBytes = 0
    if (dropNotice + lines !== '') destination.write(dropNotice + lines)
    lines = ''
  }
  setInterval(flush, FLUSH_INTERVAL_MS).unref()
  process.once('exit', () => writeLast(lines))
  return (line) => {
    lines += line
    if (lines.length >= BUFFERED_CHARACTERS_MAX) flush()
  }
}

function writeLast(lines: string): void {
  try {
    writeSync(2, lines)
  } catch {
    // Standard error is closed.
  }
}

let cachedMs = 0
let cachedTime = ''

/** Formats the time field. Cached, because many lines fall into one millisecond. */
function formatTime(): string {
  const now = Date.now()
  if (now !== cachedMs) {
    cachedMs = now
    cachedTime = `,"time":"${new Date(now).toISOString()}"`
  }
  return cachedTime
}

/** Selects the fields of an error that are safe to log: libraries put requests and rows into others. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error)
  return {
    type: error.name,
    message: error.message,
    code: codeOf(error) || undefined,
    stack: error.stack,
    cause: error.cause ? describeError(error.cause) : undefined,
  }
}
