/** A part of a shell word. If `isQuoted`, it is neither split into words nor expanded to file names. */
export type WordPart =
  | { kind: 'text'; text: string; isQuoted: boolean }
  /** `operator` is what follows the name inside `${…}`, and `nested` the words in it. */
  | { kind: 'variable'; name: string; operator: string; nested: WordPart[]; isQuoted: boolean }
  /** `isFile`: `<( )`, which stands for a file with the output. */
  | { kind: 'substitution'; commands: ShellCommand[]; isQuoted: boolean; isFile?: boolean }
  | { kind: 'arithmetic'; text: string; isQuoted: boolean }
  | { kind: 'array'; words: ShellWord[] }

export type ShellWord = WordPart[]

/** `descriptor` is what stands before the operator: a number, `{name}`, or nothing. */
export type Redirect = { descriptor: string; operator: string; target: ShellWord }

/**
 * A command of a script, without the control structure around it. `test`: `[[ … ]]`; `loop`: the head of a `for` loop, with
 * the variable as its first word; `words`: words that are expanded but not run; `pattern`: the patterns of a case clause;
 * `function`: a definition, with its name.
 */
export type ShellCommand = {
  kind: 'simple' | 'test' | 'arithmetic' | 'loop' | 'words' | 'pattern' | 'function'
  words: ShellWord[]
  redirects: Redirect[]
  /** Text of an arithmetic command, or name of a function. */
  text: string
  /** Commands of a function. */
  body: ShellCommand[]
  /** The output is the input of the next command. */
  isPiped: boolean
  /** Followed by `&&` or `||`: the exit status decides whether the next command runs. */
  isDecisive?: boolean | undefined
  /** Set after a group, a loop or a condition: redirects and a pipe apply to this many commands before it. */
  groupLength?: number | undefined
}

/** Operator of `${#name}`. */
export const LENGTH = 'length'

/** Returns the text of a word, or undefined if it has expansions. */
export const plainText = (word: ShellWord): string | undefined =>
  word.every((part) => part.kind === 'text')
    ? word.map((part) => (part.kind === 'text' ? part.text : '')).join('')
    : undefined

/** Returns the texts of a word that are not quoted. */
export const unquotedText = (word: ShellWord): string =>
  word.map((part) => (part.kind === 'text' && !part.isQuoted ? part.text : '')).join('')

export const createCommand = (kind: ShellCommand['kind'], words: ShellWord[], text = ''): ShellCommand => ({
  kind,
  words,
  redirects: [],
  text,
  body: [],
  isPiped: false,
})

export const createVariable = (name: string, isQuoted = true): WordPart => ({
  kind: 'variable',
  name,
  operator: '',
  nested: [],
  isQuoted,
})

/** Joins adjacent texts that are quoted alike. */
export function joinTexts(parts: WordPart[]): WordPart[] {
  const joined: WordPart[] = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (last?.kind === 'text' && part.kind === 'text' && last.isQuoted === part.isQuoted)
      joined[joined.length - 1] = { ...last, text: last.text + part.text }
    else joined.push(part)
  }
  return joined
}

/** A command as the shell finally runs it: without assignments and wrappers such as `command` and `timeout`. */
type ShellCall = {
  assignments: readonly ShellWord[]
  command: ShellWord | undefined
  args: readonly ShellWord[]
}

/** Start of a word that assigns: name and subscript. */
export const ASSIGNMENT = /^([A-Za-z_]\w*)(\[[^\]]*\])?\+?=/

/** Commands that run the command after their options, with the options that may precede it. */
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

/** Lists the arguments that are not options. */
export const listOperands = (args: readonly ShellWord[]): ShellWord[] =>
  args.filter((word) => !/^-./.test(plainText(word) ?? ''))

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

/** Returns the name of the program that a simple command calls, or an empty text. */
export const calledProgram = (words: readonly ShellWord[]): string =>
  programName(plainText(toCall(words).command ?? []) ?? '')

/** Like `calledProgram`, for a command of any kind. */
export const commandName = ({ kind, words }: ShellCommand): string => (kind === 'simple' ? calledProgram(words) : '')

/** Returns the name of a program without the system folder that it is in. */
export const programName = (path: string): string => path.replace(/^(?:\/usr(?:\/local)?)?\/s?bin\//, '')

export const leadingText = (word: ShellWord): string => {
  const [first] = word
  return first?.kind === 'text' && !first.isQuoted ? first.text : ''
}

/** Shortens a text of a script for a message. */
export const shorten = (text: string): string => {
  const line = text.trim().replaceAll(/\s+/g, ' ')
  return line.length > 60 ? `${line.slice(0, 60)}…` : line
}

/** Values of each variable, one per assignment. */
export type Values = ReadonlyMap<string, readonly ShellWord[]>

const DEPTH_MAX = 5

/** Returns the value of a word if it is known. */
export function resolveWord(values: Values, word: ShellWord, depth = 0): string | undefined {
  const texts = word.map((part) => resolvePart(values, part, depth))
  return texts.every((text) => text !== undefined) ? texts.join('') : undefined
}

function resolvePart(values: Values, part: WordPart, depth: number): string | undefined {
  if (part.kind === 'text') return part.isQuoted || isPlain(part.text) ? part.text : undefined
  if (part.kind === 'substitution') return resolveSubstitution(part.commands)
  if (part.kind !== 'variable') return undefined
  const text = part.operator === '' ? resolveVariable(values, part.name, depth) : undefined
  return part.isQuoted ? text : singleWord(text)
}

/** An unquoted value is one word only if it has no blanks and no pattern. */
const singleWord = (text = ''): string | undefined => (/^[\w./:=@%+-]+$/.test(text) ? text : undefined)

function resolveVariable(values: Values, name: string, depth: number): string | undefined {
  const [value, ...others] = values.get(name) ?? []
  const isSame = others.every((other) => JSON.stringify(other) === JSON.stringify(value))
  return value && isSame && depth <= DEPTH_MAX ? resolveWord(values, value, depth + 1) : undefined
}

/** Harbor puts the script that is checked into this folder. */
const SCRIPT_FOLDER = '/tests'
/** Stands for every path that `mktemp` prints. Only its owner can read what it creates. */
export const MKTEMP_PATH = '/tmp/mktemp.XXXXXXXXXX'

function resolveSubstitution(commands: readonly ShellCommand[]): string | undefined {
  if (printsScriptFolder(commands)) return SCRIPT_FOLDER
  return printsTemporaryPath(commands) ? MKTEMP_PATH : undefined
}

/** Returns true for `mktemp` without a name of its own. */
function printsTemporaryPath([first, ...others]: readonly ShellCommand[]): boolean {
  const [name = [], ...options] = first?.words ?? []
  return others.length === 0 && plainText(name) === 'mktemp' && options.every((word) => plainText(word) === '-d')
}

/** Returns true if an unquoted text is literal. */
const isPlain = (text: string): boolean => text === '[' || !/[*?[{]|^~/.test(text)

/** Returns true if a substitution prints the folder of the script: `dirname "$0"`, or `cd` to it and `pwd`. */
function printsScriptFolder(commands: readonly ShellCommand[]): boolean {
  const [first, second, ...others] = commands
  if (!first || others.length > 0) return false
  const [name = [], operand = []] = first.words
  if (second === undefined) return plainText(name) === 'dirname' && isOwnName(operand)
  const [part] = operand.filter((each) => each.kind !== 'text' || each.text !== '')
  const isCd = plainText(name) === 'cd' && part?.kind === 'substitution' && printsScriptFolder(part.commands)
  return isCd && plainText(second.words[0] ?? []) === 'pwd'
}

const isOwnName = (word: ShellWord): boolean =>
  word
    .filter((part) => part.kind !== 'text' || part.text !== '')
    .every((part) => part.kind === 'variable' && (part.name === '0' || part.name === 'BASH_SOURCE'))
