import { styleText } from 'node:util'

/** What a command gets from whoever called it. Only main.ts takes it from the process. */
export type Shell = {
  env: Record<string, string | undefined>
  input: () => NodeJS.ReadStream
  /** Results, and nothing else: what a script wants to have. */
  output: NodeJS.WriteStream
  /** Notes, progress and failures. */
  errors: NodeJS.WriteStream
}

export const print = ({ output }: Shell, text: string): void => void output.write(`${text}\n`)
export const note = ({ errors }: Shell, text: string): void => void errors.write(`${text}\n`)

/** The API's own shapes. Control characters that JSON lets pass are escaped too: they could command the terminal. */
export const printJson = (shell: Shell, value: unknown): void =>
  print(shell, JSON.stringify(value, null, 2).replaceAll(/[\u007f-\u009f]/g, escaped))

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** Text that someone else wrote, safe to show on a terminal. */
export const printable = (text: string): string => text.replaceAll(/\p{Cc}/gu, '�')

type Format = Parameters<typeof styleText>[0]

/** Coloured where the stream is a terminal, or as NO_COLOR and FORCE_COLOR say. */
export const styled = (stream: NodeJS.WriteStream, format: Format, text: string): string =>
  styleText(format, text, { stream })
