import { LENGTH, plainText, type ShellCommand, type ShellWord, type WordPart } from './shell-words.ts'

/** Which values of a script a submission cannot influence. */
export type ScriptTrust = {
  functions: ReadonlyMap<string, readonly ShellCommand[]>
  /** Variables with at least one value that may come from the submission. */
  untrusted: ReadonlySet<string>
  /** Returns the value of a word if it is known. */
  resolve: (word: ShellWord) => string | undefined
}

type Assignment = { name: string; value: ShellWord | undefined; arithmetic?: string }

/** Positional parameters of all functions count as one variable. */
const POSITIONALS = '@'
/** Variables that the shell sets from data or from the current directory. */
const SHELL_VARIABLES = ['_', 'PWD', 'OLDPWD', 'REPLY', 'MAPFILE', 'BASH_REMATCH', 'OPTARG', 'BASH_ARGV']

/**
 * Finds out which variables of a script can have a value of the submission. A variable that the script does not set is the
 * environment's: the image and the task set it. `around`: the script that runs this one, which passes its values on.
 */
export function readTrust(commands: readonly ShellCommand[], around?: ScriptTrust): ScriptTrust {
  const all = [...everyCommand(commands)]
  const functions = functionsIn(all, around)
  const assignments = all.flatMap((command) => assignmentsIn(command, functions))
  const untrusted = new Set([...SHELL_VARIABLES, ...(around ? [...around.untrusted, POSITIONALS] : [])])
  const values = new Map<string, ShellWord[]>()
  for (const { name, value } of assignments) values.set(name, [...(values.get(name) ?? []), value ?? UNKNOWN])
  const trust = { functions, untrusted, resolve: (word: ShellWord) => resolveWord(values, word) }
  for (let size = -1; size !== untrusted.size; ) {
    size = untrusted.size
    for (const assignment of assignments) if (!isTrustedAssignment(trust, assignment)) untrusted.add(assignment.name)
  }
  return trust
}

const functionsIn = (commands: readonly ShellCommand[], around: ScriptTrust | undefined): ScriptTrust['functions'] =>
  new Map([
    ...(around?.functions ?? []),
    ...commands.filter(({ kind }) => kind === 'function').map(({ text, body }) => [text, body] as const),
  ])

function isTrustedAssignment(trust: ScriptTrust, { value, arithmetic }: Assignment): boolean {
  if (arithmetic !== undefined) return isTrustedArithmetic(trust, arithmetic)
  return value !== undefined && isTrustedWord(trust, value)
}

const UNKNOWN: ShellWord = [{ kind: 'array', words: [] }]

/** All commands, those in substitutions and functions too. */
function* everyCommand(commands: readonly ShellCommand[]): Generator<ShellCommand> {
  for (const command of commands) {
    yield command
    yield* everyCommand(command.body)
    for (const word of [...command.words, ...command.redirects.map(({ target }) => target)]) yield* commandsIn(word)
  }
}

function* commandsIn(parts: readonly WordPart[]): Generator<ShellCommand> {
  for (const part of parts) {
    if (part.kind === 'substitution') yield* everyCommand(part.commands)
    if (part.kind === 'variable') yield* commandsIn(part.nested)
    if (part.kind === 'array') for (const word of part.words) yield* commandsIn(word)
  }
}

const NAMING = new Set(['read', 'mapfile', 'readarray', 'getopts'])
const DECLARING = new Set(['export', 'local', 'declare', 'typeset', 'readonly'])

function assignmentsIn(command: ShellCommand, functions: ScriptTrust['functions']): Assignment[] {
  const { kind, words, text } = command
  const sums = [...(kind === 'arithmetic' ? [text] : []), ...words.flatMap((word) => word.flatMap(arithmeticIn))]
  const found = [...sums.flatMap(assignedIn), ...words.flatMap(defaultsIn)]
  if (kind === 'loop') return [...found, ...loopValues(words)]
  return kind === 'simple' ? [...found, ...simpleAssignments(words, functions)] : found
}

const arithmeticIn = (part: WordPart): string[] => (part.kind === 'arithmetic' ? [part.text] : [])

const loopValues = ([variable = [], ...values]: readonly ShellWord[]): Assignment[] =>
  values.map((value) => ({ name: plainText(variable) ?? '', value: hasGlob(value) ? undefined : value }))

function simpleAssignments(words: readonly ShellWord[], functions: ScriptTrust['functions']): Assignment[] {
  const name = plainText(words[0] ?? []) ?? ''
  const args = words.slice(1)
  if (NAMING.has(name)) return args.map((arg) => ({ name: plainText(arg) ?? '', value: undefined }))
  if (functions.has(name) || name === 'set') return args.map((value) => ({ name: POSITIONALS, value }))
  const first = words.findIndex((word) => !toAssignment(word))
  const assigned = DECLARING.has(name) ? args : words.slice(0, first === -1 ? undefined : first)
  return assigned.flatMap((word) => toAssignment(word) ?? [])
}

const hasGlob = (word: ShellWord): boolean =>
  word.some((part) => part.kind === 'text' && !part.isQuoted && /[*?[]/.test(part.text))

/** `${name:=value}` assigns. */
const defaultsIn = (word: ShellWord): Assignment[] =>
  word.flatMap((part) =>
    part.kind === 'variable' && /^:?=/.test(part.operator) ? [{ name: part.name, value: part.nested }] : [],
  )

const assignedIn = (text: string): Assignment[] =>
  [...text.matchAll(/([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%&|^]?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)/g)].map((match) => ({
    name: match[1] ?? match[2] ?? '',
    value: undefined,
    arithmetic: text,
  }))

function toAssignment(word: ShellWord): Assignment | undefined {
  const [first, ...others] = word
  if (first?.kind !== 'text' || first.isQuoted) return undefined
  const [start, name = ''] = /^([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=/.exec(first.text) ?? []
  if (start === undefined) return undefined
  return { name, value: [{ ...first, text: first.text.slice(start.length), isQuoted: true }, ...others] }
}

/** Returns true if nothing in a word can come from the submission. */
export const isTrustedWord = (trust: Pick<ScriptTrust, 'functions' | 'untrusted'>, word: ShellWord): boolean =>
  word.every((part) => isTrustedPart(trust, part))

function isTrustedPart(trust: Pick<ScriptTrust, 'functions' | 'untrusted'>, part: WordPart): boolean {
  if (part.kind === 'text') return part.isQuoted || !/[*?[]/.test(part.text) || part.text.startsWith('[')
  if (part.kind === 'arithmetic') return isTrustedArithmetic(trust, part.text)
  if (part.kind === 'array') return part.words.length > 0 && part.words.every((word) => isTrustedWord(trust, word))
  if (part.kind === 'substitution') return part.commands.every((command) => hasTrustedOutput(trust, command, 0))
  const name = /^[\d@*]$/.test(part.name) && part.name !== '0' ? POSITIONALS : part.name
  const isLength = part.operator.startsWith(LENGTH)
  return isLength || (!trust.untrusted.has(name) && isTrustedWord(trust, part.nested))
}

/** Arithmetic evaluates the values of the variables that it names, again and again. */
export const isTrustedArithmetic = (trust: Pick<ScriptTrust, 'untrusted'>, text: string): boolean =>
  /^(?:[\w\s+\-*/%<>=!&|^~?:(),]|\$(?:\w+|\{\w+\}|[?#]))*$/.test(text) &&
  [...text.matchAll(/[A-Za-z_]\w*|\$\{?\d/g)].every(
    ([name]) => !trust.untrusted.has(name.startsWith('$') ? POSITIONALS : name),
  )

/** Commands that print nothing, or nothing that a file contains. */
const SILENT = new Set(
  ': true false [ test cd exit return break continue shift set local export mkdir touch rm wait sleep read'.split(' '),
)
const PRODUCERS = new Set('mktemp date seq nproc id whoami uname dirname basename echo printf'.split(' '))
const DEPTH_MAX = 5

/** Returns true if a command prints nothing that the submission can choose. */
function hasTrustedOutput(
  trust: Pick<ScriptTrust, 'functions' | 'untrusted'>,
  { kind, words, redirects, isPiped }: ShellCommand,
  depth: number,
): boolean {
  if (isPiped) return true
  if (kind !== 'simple') return kind !== 'words' || redirects.length === 0
  const name = plainText(words[0] ?? [])
  if (name === undefined || depth > DEPTH_MAX) return false
  if (SILENT.has(name) || isQuiet(name, words)) return true
  const body = trust.functions.get(name)
  if (body) return body.every((command) => hasTrustedOutput(trust, command, depth + 1))
  return PRODUCERS.has(name) && words.slice(1).every((word) => isTrustedWord(trust, word))
}

/** Returns true if a command prints nothing, or only a number. */
const isQuiet = (name: string, words: readonly ShellWord[]): boolean =>
  (name === 'wc' && words.slice(1).every((word) => /^-[lwcm]$/.test(plainText(word) ?? ''))) ||
  (name === 'cmp' && words.some((word) => plainText(word) === '-s')) ||
  (/^[ef]?grep$/.test(name) && words.some((word) => /^-[a-zA-Z]*[qc]/.test(plainText(word) ?? '')))

type Values = ReadonlyMap<string, readonly ShellWord[]>

function resolveWord(values: Values, word: ShellWord, depth = 0): string | undefined {
  const texts = word.map((part) => resolvePart(values, part, depth))
  return texts.every((text) => text !== undefined) ? texts.join('') : undefined
}

function resolvePart(values: Values, part: WordPart, depth: number): string | undefined {
  if (part.kind === 'text') return part.isQuoted || isPlain(part.text) ? part.text : undefined
  if (part.kind === 'substitution') return isScriptFolder(part.commands) ? '/tests' : undefined
  if (part.kind !== 'variable') return undefined
  const text = part.operator === '' ? resolveVariable(values, part.name, depth) : undefined
  return part.isQuoted ? text : singleWord(text)
}

/** An unquoted value is one word only if it has no blanks and no pattern. */
const singleWord = (text = ''): string | undefined => (/^[\w./:=@%+-]+$/.test(text) ? text : undefined)

function resolveVariable(values: Values, name: string, depth: number): string | undefined {
  const [value, ...others] = values.get(name) ?? []
  return value && others.length === 0 && depth <= DEPTH_MAX ? resolveWord(values, value, depth + 1) : undefined
}

/** Returns true if an unquoted text is literal. */
const isPlain = (text: string): boolean => text === '[' || !/[*?[{]|^~/.test(text)

/** Returns true if a substitution prints the folder of the script: `dirname "$0"`, or `cd` to it and `pwd`. */
function isScriptFolder(commands: readonly ShellCommand[]): boolean {
  const [first, second, ...others] = commands
  if (!first || others.length > 0) return false
  const [name = [], operand = []] = first.words
  if (second === undefined) return plainText(name) === 'dirname' && isOwnName(operand)
  const [part] = operand.filter((each) => each.kind !== 'text' || each.text !== '')
  const isCd = plainText(name) === 'cd' && part?.kind === 'substitution' && isScriptFolder(part.commands)
  return isCd && plainText(second.words[0] ?? []) === 'pwd'
}

const isOwnName = (word: ShellWord): boolean =>
  word
    .filter((part) => part.kind !== 'text' || part.text !== '')
    .every((part) => part.kind === 'variable' && (part.name === '0' || part.name === 'BASH_SOURCE'))
