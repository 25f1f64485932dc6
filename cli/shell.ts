import { styleText } from 'node:util'
import { escapeJson, printable } from '../src/platform/terminal-text.ts'

/** Environment and streams of a command. Only main.ts reads them from the process. */
export type Shell = {
  env: Record<string, string | undefined>
  input: () => NodeJS.ReadStream
  /** Results only, for scripts. */
  output: NodeJS.WriteStream
  /** Notes, progress and failures. */
  errors: NodeJS.WriteStream
}

/** Prints results, one line per argument. Control characters and line breaks within an argument are made visible. */
export const print = ({ output }: Shell, ...lines: string[]): void => writeLines(output, lines)

/** Prints notes, progress and failures to standard error, sanitised like results. */
export const note = ({ errors }: Shell, ...lines: string[]): void => writeLines(errors, lines)

/** Prints a value as JSON. Control characters are escaped, so that nothing is lost. */
export const printJson = ({ output }: Shell, value: unknown): void =>
  void output.write(`${escapeJson(JSON.stringify(value, null, 2))}\n`)

/** Writes sanitised lines. All output of commands passes through here, so no other code has to sanitise untrusted text. */
const writeLines = (stream: NodeJS.WriteStream, lines: readonly string[]): void =>
  void stream.write(lines.map((line) => `${safeLine(stream, line)}\n`).join(''))

/** Returns a line in which the only escape sequences are those of `styled`, and only where the stream shows colours. */
export function safeLine(stream: NodeJS.WriteStream, line: string): string {
  const text = line.replaceAll('\t', '    ')
  if (!text.includes('\u001b') || !isColoured(stream)) return printable(text)
  // A split by a capturing pattern returns the matches too: every second part is a sequence of `styled`.
  const parts = text.split(STYLE_SEQUENCES).map((part, index) => (index % 2 === 1 ? part : printable(part)))
  return `${parts.join('')}\u001b[0m`
}

const FORMATS = ['bold', 'red', 'green', 'yellow'] as const
type TextFormat = (typeof FORMATS)[number]

/** Matches the escape sequences that `styled` writes. */
const STYLE_SEQUENCES = new RegExp(
  `(${FORMATS.flatMap((format) => styleText(format, '|', { validateStream: false }).split('|'))
    .map((code) => code.replace('[', '\\['))
    .join('|')})`,
)

const isColoured = (stream: NodeJS.WriteStream): boolean => styleText('bold', '', { stream }) !== ''

/** Adds a style if the stream is a terminal, subject to NO_COLOR and FORCE_COLOR. */
export const styled = (stream: NodeJS.WriteStream, format: TextFormat, text: string): string =>
  styleText(format, printable(text), { stream })
