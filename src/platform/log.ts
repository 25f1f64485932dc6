import { type Logger, pino } from 'pino'

export type Log = Logger
export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Names under which a secret could stand. They are blanked wherever they appear in a line, two levels deep. */
const SECRET_NAMES = ['authorization', 'cookie', 'key', 'secret', 'password', 'token', 'apiKey', 'connectionString']

/** JSON lines on standard error; standard output is for what a person asked to see. */
export const createLog = (level: LogLevel, write?: (line: string) => void): Log =>
  pino(
    {
      level,
      base: null,
      timestamp: timeOf,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_NAMES.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '…' },
      serializers: { error: describeError },
    },
    write ? { write } : pino.destination({ fd: 2, sync: false }),
  )

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
