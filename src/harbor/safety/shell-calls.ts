import { plainText, type ShellWord } from './shell-words.ts'

/** A command as the shell finally runs it: without assignments and wrappers such as `command` and `timeout`. */
export type ShellCall = {
  assignments: readonly ShellWord[]
  command: ShellWord | undefined
  args: readonly ShellWord[]
}

/** Start of a word that assigns: name and subscript. */
export const ASSIGNMENT = /^([A-Za-z_]\w*)(\[[^\]]*\])?\+?=/

/** Commands that run the command behind their options, with the options that may precede it. */
const WRAPPER_OPTION: Readonly<Record<string, RegExp>> = {
  timeout: /^(?:-.*|[\d.]+[smhd]?|[A-Z]+)$/,
  command: /^(?:-p|--)$/,
  builtin: /^--$/,
  exec: /^--$/,
  env: /^--$/,
  nice: /^--$/,
  nohup: /^--$/,
}

export const WRAPPERS: readonly string[] = Object.keys(WRAPPER_OPTION)

/** Returns the call of a simple command. A wrapper with an option that is not known is the command itself. */
export function toCall(words: readonly ShellWord[]): ShellCall {
  const first = words.findIndex((word) => !ASSIGNMENT.test(leadingText(word)))
  if (first === -1) return { assignments: words, command: undefined, args: [] }
  const assignments = words.slice(0, first)
  const [command = [], ...args] = words.slice(first)
  const option = WRAPPER_OPTION[programName(plainText(command) ?? '')]
  const at = option ? args.findIndex((word) => !option.test(plainText(word) ?? '')) : -1
  if (at === -1 || plainText(args[at] ?? [])?.startsWith('-')) return { assignments, command, args }
  const inner = toCall(args.slice(at))
  return { ...inner, assignments: [...assignments, ...inner.assignments] }
}

/** Returns the name of a program without the system folder that it is in. */
export const programName = (path: string): string => path.replace(/^(?:\/usr(?:\/local)?)?\/s?bin\//, '')

export const leadingText = (word: ShellWord): string => {
  const [first] = word
  return first?.kind === 'text' && !first.isQuoted ? first.text : ''
}
