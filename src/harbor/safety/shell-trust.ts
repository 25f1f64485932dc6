import { UnreadableScript } from './shell-cursor.ts'
import { parseShell } from './shell-parser.ts'
import {
  ASSIGNMENT,
  calledProgram,
  LENGTH,
  plainText,
  programName,
  resolveWord,
  type ShellCommand,
  type ShellWord,
  toCall,
  type Values,
  type WordPart,
} from './shell-words.ts'

/** Values of a script that a submission cannot influence. */
export type ScriptTrust = {
  rule: TrustRule
  functions: ReadonlyMap<string, readonly ShellCommand[]>
  /** Variables with at least one value that may come from the submission, and functions that may print one: `name()`. */
  untrusted: ReadonlySet<string>
  /** Variables with at least one value that the shell expands to file names where it is not quoted. */
  patterns: ReadonlySet<string>
  /** Returns the value of a word if it is known. */
  resolve: (word: ShellWord) => string | undefined
  /** Returns the values that the script assigns to a variable. */
  listValues: (name: string) => readonly ShellWord[]
}

/** Decides what is trusted. */
export type TrustRule = {
  /** Numbers are trusted even if the submission chooses them, because they contain no code: lengths, counts, `$?`. */
  trustsNumbers: boolean
  /** Trusts names of files that the submission cannot invent: patterns that begin with `/`, current directory, `<( )`. */
  trustsFileNames?: boolean
  /** Returns true if nothing that commands print together can come from the submission. */
  hasTrustedOutput: (trust: ScriptTrust, commands: readonly ShellCommand[]) => boolean
}

/** Trusts values that cannot contain code of the submission. */
const CODE_RULE: TrustRule = {
  trustsNumbers: true,
  hasTrustedOutput: (trust, commands) => commands.every((command) => hasTrustedOutput(trust, command)),
}

/** `isExpanded`: unquoted patterns in the value are expanded to file names. */
type Assignment = {
  name: string
  value: ShellWord | undefined
  arithmetic?: string
  isExpanded?: boolean
  /** The value is a line of the input. */
  isLine?: boolean
}

/** Variables that name the current directory. */
const FOLDER_VARIABLES = ['PWD', 'OLDPWD']

/** Name of `$?`, which `exit` and `return` set. */
const STATUS = '?'
/** Positional parameters of all functions count as one variable. */
const POSITIONALS = '@'
/** Variables that the shell sets from data or from the current directory. */
const SHELL_VARIABLES = ['_', 'REPLY', 'MAPFILE', 'BASH_REMATCH', 'OPTARG', 'BASH_ARGV', 'DIRSTACK']

/**
 * Finds the variables of a script that can have a value of the submission. Variables that the script does not set come from
 * the image or the task and are trusted. `others`: commands of scripts that may call or source this one, or be called by it.
 * `outer`: the script that contains this one, which passes its values on.
 */
export function readTrust(
  commands: readonly ShellCommand[],
  others: readonly ShellCommand[],
  outer?: ScriptTrust,
  rule: TrustRule = CODE_RULE,
): ScriptTrust {
  const all = [...walkCommands(commands)]
  const functions = collectFunctions(all, outer)
  const everything = [...all, ...walkCommands(others)]
  const assignments = everything
    .flatMap((command) => listAssignments(command, functions))
    .filter(({ name }) => !rule.trustsNumbers || name !== STATUS)
  const folders = rule.trustsFileNames ? [] : FOLDER_VARIABLES
  const untrusted = new Set([...SHELL_VARIABLES, ...folders, ...(outer ? [...outer.untrusted, POSITIONALS] : [])])
  const patterns = new Set(outer?.patterns)
  const values = collectValues(assignments)
  const trust = {
    rule,
    functions,
    untrusted,
    patterns,
    resolve: (word: ShellWord) => resolveWord(values, word),
    listValues: (name: string) => values.get(name) ?? [],
  }
  const trustsLines = rule.trustsFileNames && readsTests(trust, everything)
  spreadDistrust(
    trust,
    assignments.filter(({ isLine }) => !(isLine && trustsLines)),
    everything,
  )
  return trust
}

function collectValues(assignments: readonly Assignment[]): Values {
  const values = new Map<string, ShellWord[]>()
  for (const { name, value: assigned = UNKNOWN, isExpanded } of assignments) {
    const known = values.get(name)
    const value = isExpanded && hasGlob(assigned) ? UNKNOWN : assigned
    if (known) known.push(value)
    else if (name !== STATUS) values.set(name, [value])
  }
  return values
}

/** Maximum number of rounds in which values are followed, so that the time stays linear in the length of a script. */
const ROUNDS_MAX = 50

/** Adds the names that depend on untrusted ones until there are no more. */
function spreadDistrust(
  trust: ScriptTrust & { untrusted: Set<string>; patterns: Set<string> },
  assignments: readonly Assignment[],
  commands: readonly ShellCommand[],
): void {
  const { untrusted, patterns } = trust
  for (let rounds = 0; rounds <= ROUNDS_MAX; rounds += 1) {
    const size = untrusted.size + patterns.size
    for (const name of listUntrusted(trust, assignments, commands)) untrusted.add(name)
    for (const { name, value = [] } of assignments) if (mayBePattern(patterns, value)) patterns.add(name)
    if (size === untrusted.size + patterns.size) return
  }
  throw new UnreadableScript('too many values that depend on each other')
}

/** Yields names that turn out to be untrusted. The caller records each at once, so that it counts for the next ones. */
function* listUntrusted(
  trust: ScriptTrust,
  assignments: readonly Assignment[],
  commands: readonly ShellCommand[],
): Generator<string> {
  for (const each of assignments) if (!isTrustedAssignment(trust, each)) yield each.name
  for (const [name, body] of trust.functions) if (!trust.rule.hasTrustedOutput(trust, body)) yield toOutputKey(name)
  if (!trust.rule.trustsNumbers && hasOpenLoop(trust, commands))
    yield* assignments.filter(isCounter).map(({ name }) => name)
}

/** Returns true if the submission may decide how often a loop runs: over its files, words or lines. */
function hasOpenLoop(trust: ScriptTrust, commands: readonly ShellCommand[]): boolean {
  const isReading = commands.some(({ kind, words }) => kind === 'simple' && LINE_READERS.has(calledProgram(words)))
  if (isReading && !readsTests(trust, commands)) return true
  return commands.some(({ kind, words, text }) => {
    if (kind === 'arithmetic') return !isTrustedArithmetic(trust, text)
    return kind === 'loop' && words.slice(1).some((word) => !isTrustedWord(trust, word))
  })
}

/** Returns true if commands get no other input than files of the tests. */
function readsTests({ resolve }: Pick<ScriptTrust, 'resolve'>, commands: readonly ShellCommand[]): boolean {
  const inputs = commands.flatMap(({ redirects }) => redirects.filter(({ operator }) => operator === '<'))
  const isOwn = inputs.every(({ target }) => /^\/(?:tests\/(?!.*\.\.)|dev\/null$)/.test(resolve(target) ?? ''))
  return isOwn && inputs.length > 0 && !commands.some(({ isPiped }) => isPiped)
}

const LINE_READERS = new Set(['read', 'mapfile', 'readarray'])

/** Returns true if a variable gets a value that depends on its earlier one, such as a count. */
const isCounter = ({ name, value = [], arithmetic }: Assignment): boolean =>
  arithmetic !== undefined ||
  [...walkParts(value)].some((part) => {
    if (part.kind === 'arithmetic') return part.text.match(/[A-Za-z_]\w*/g)?.includes(name)
    return part.kind === 'variable' && part.name === name
  })

/** Name under which the output of a function is recorded. */
const toOutputKey = (name: string): string => `${name}()`

/** Returns true if a function prints nothing that may come from the submission. */
export const isTrustedFunction = ({ untrusted }: ScriptTrust, name: string): boolean =>
  !untrusted.has(toOutputKey(name))

const PATTERN_CHARACTER = /[*?[]/

const mayBePattern = (patterns: ReadonlySet<string>, word: ShellWord): boolean =>
  [...walkParts(word)].some((part) => {
    if (part.kind === 'text') return PATTERN_CHARACTER.test(part.text)
    if (part.kind === 'variable') return patterns.has(toVariable(part.name))
    return (
      part.kind === 'substitution' &&
      part.commands.some(({ words }) => words.some((each) => mayBePattern(patterns, each)))
    )
  })

const collectFunctions = (
  commands: readonly ShellCommand[],
  outer: ScriptTrust | undefined,
): ScriptTrust['functions'] =>
  new Map([
    ...(outer?.functions ?? []),
    ...commands.filter(({ kind }) => kind === 'function').map(({ text, body }) => [text, body] as const),
  ])

function isTrustedAssignment(trust: ScriptTrust, { value, arithmetic, isExpanded }: Assignment): boolean {
  if (arithmetic !== undefined) return isTrustedArithmetic(trust, arithmetic)
  return value !== undefined && isTrustedWord(trust, isExpanded ? value : quoted(value))
}

/** Returns a word that is not expanded to file names. */
export const quoted = (word: ShellWord): ShellWord =>
  word.map((part) => (part.kind === 'array' ? part : { ...part, isQuoted: true }))

const UNKNOWN: ShellWord = [{ kind: 'array', words: [] }]

/** Yields all commands, also those in substitutions, functions and traps. */
function* walkCommands(commands: readonly ShellCommand[]): Generator<ShellCommand> {
  for (const command of commands) {
    yield command
    yield* walkCommands(command.body)
    yield* walkCommands(parseTrap(command))
    for (const part of listParts(command)) if (part.kind === 'substitution') yield* walkCommands(part.commands)
  }
}

/** Returns the commands of a trap, which the same shell runs. */
function parseTrap({ kind, words }: ShellCommand): ShellCommand[] {
  const { command, args } = toCall(words)
  const isTrap = kind === 'simple' && plainText(command ?? []) === 'trap'
  return isTrap ? parseShell(plainText(args[0] ?? []) ?? '') : []
}

const listParts = ({ words, redirects }: ShellCommand): WordPart[] =>
  [...words, ...redirects.map(({ target }) => target)].flatMap((word) => [...walkParts(word)])

/** Yields all parts of a word, also those in arrays and expansions. */
function* walkParts(parts: readonly WordPart[]): Generator<WordPart> {
  for (const part of parts) {
    yield part
    if (part.kind === 'variable') yield* walkParts(part.nested)
    if (part.kind === 'array') for (const word of part.words) yield* walkParts(word)
  }
}

/** Commands whose arguments are names of variables that they set. */
const VARIABLE_SETTERS = new Set(['read', 'mapfile', 'readarray', 'getopts', 'wait', 'unset'])
const DECLARATIONS = new Set(['export', 'local', 'declare', 'typeset', 'readonly'])
/** Commands that pass their arguments on as positional parameters. */
const ARGUMENT_PASSERS = new Set(['set', '.', 'source', 'bash', 'sh', 'dash'])

/** Returns true if a command changes variables or parameters, so that its name must be written in the script. */
export const isAssigning = (name: string): boolean =>
  VARIABLE_SETTERS.has(name) || DECLARATIONS.has(name) || ARGUMENT_PASSERS.has(name)

function listAssignments(command: ShellCommand, functions: ScriptTrust['functions']): Assignment[] {
  const { kind, words, text } = command
  const parts = listParts(command)
  const nested = parts.flatMap((part) => (part.kind === 'arithmetic' ? [part.text] : []))
  const arithmetic = kind === 'arithmetic' ? [text, ...nested] : nested
  const assignments = [...arithmetic.flatMap(listArithmeticAssignments), ...parts.flatMap(listDefaultAssignments)]
  if (kind === 'loop') return [...assignments, ...listLoopAssignments(words)]
  return kind === 'simple' ? [...assignments, ...listCommandAssignments(words, functions)] : assignments
}

const listLoopAssignments = ([variable = [], ...values]: readonly ShellWord[]): Assignment[] =>
  values.map((value) => ({ name: plainText(variable) ?? '', value, isExpanded: true }))

function listCommandAssignments(words: readonly ShellWord[], functions: ScriptTrust['functions']): Assignment[] {
  const { assignments, command = [], args } = toCall(words)
  const name = programName(plainText(command) ?? '')
  const before = assignments.flatMap((word) => toAssignment(word) ?? [])
  const named = VARIABLE_SETTERS.has(name)
    ? args.map((arg) => ({ name: plainText(arg) ?? '', value: undefined, isLine: LINE_READERS.has(name) }))
    : []
  const declared = DECLARATIONS.has(name) ? args.flatMap((word) => toAssignment(word) ?? []) : []
  const isPassing =
    functions.has(name) || ARGUMENT_PASSERS.has(name) || plainText(command) === undefined || name.includes('/')
  const passed = isPassing ? args.map((value) => ({ name: POSITIONALS, value, isExpanded: true })) : []
  const status = /^(?:exit|return)$/.test(name) ? args.map((value) => ({ name: STATUS, value })) : []
  // A grader runs programs of the submission with setpriv, and they choose their exit status.
  const chosen = name === 'setpriv' ? [{ name: STATUS, value: undefined }] : []
  return [...before, ...named, ...declared, ...passed, ...status, ...chosen]
}

const hasGlob = (word: ShellWord): boolean =>
  word.some((part) => part.kind === 'text' && !part.isQuoted && PATTERN_CHARACTER.test(part.text))

/** Lists the assignment of `${name:=value}`. */
const listDefaultAssignments = (part: WordPart): Assignment[] =>
  part.kind === 'variable' && /^:?=/.test(part.operator) ? [{ name: part.name, value: part.nested }] : []

const listArithmeticAssignments = (text: string): Assignment[] =>
  [...text.matchAll(/([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%&|^]?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)/g)].map((match) => ({
    name: match[1] ?? match[2] ?? '',
    value: undefined,
    arithmetic: text,
  }))

function toAssignment(word: ShellWord): Assignment | undefined {
  const [first, ...others] = word
  if (first?.kind !== 'text' || first.isQuoted) return undefined
  const [start, name = ''] = ASSIGNMENT.exec(first.text) ?? []
  if (start === undefined) return undefined
  const value: ShellWord = [{ ...first, text: first.text.slice(start.length), isQuoted: true }, ...others]
  const previous: WordPart = { kind: 'variable', name, operator: '', nested: [], isQuoted: true }
  return { name, value: start.endsWith('+=') ? [previous, ...value] : value }
}

/** Returns true if nothing in a word can come from the submission. */
export const isTrustedWord = (trust: ScriptTrust, word: ShellWord): boolean =>
  word.every((part) => isTrustedPart(trust, part) || (part.kind === 'text' && isPathPattern(trust, word)))

/** Returns true if a pattern can only become paths that begin as written, which are no options. */
function isPathPattern(trust: ScriptTrust, [first]: ShellWord): boolean {
  const start = first?.kind === 'text' ? first.text : first && trust.resolve([first])
  return trust.rule.trustsFileNames === true && /^\.{0,2}\//.test(start ?? '')
}

function isTrustedPart(trust: ScriptTrust, part: WordPart): boolean {
  if (part.kind === 'text') return part.isQuoted || !PATTERN_CHARACTER.test(part.text) || part.text === '['
  if (part.kind === 'arithmetic') return isTrustedArithmetic(trust, part.text)
  if (part.kind === 'array') return part.words.length > 0 && part.words.every((word) => isTrustedWord(trust, word))
  if (part.kind === 'substitution') return isTrustedSubstitution(trust, part)
  const name = toVariable(part.name)
  if (part.operator.startsWith(LENGTH) && trust.rule.trustsNumbers) return true
  const isExpanded = !part.isQuoted && trust.patterns.has(name)
  return !isExpanded && !trust.untrusted.has(name) && isTrustedWord(trust, quoted(part.nested))
}

const isTrustedSubstitution = (
  trust: ScriptTrust,
  { commands, isFile = false }: Extract<WordPart, { kind: 'substitution' }>,
): boolean => (isFile && trust.rule.trustsFileNames === true) || trust.rule.hasTrustedOutput(trust, commands)

const toVariable = (name: string): string => (/^[1-9@*]$/.test(name) ? POSITIONALS : name)

/** Returns true if arithmetic uses no untrusted variable. The shell evaluates the values of variables as arithmetic again. */
export const isTrustedArithmetic = (trust: Pick<ScriptTrust, 'untrusted'>, text: string): boolean =>
  /^(?:[\w\s+\-*/%<>=!&|^~?:(),]|\$(?:\w+|\{\w+\}|[?#]))*$/.test(text) &&
  [...text.matchAll(/[A-Za-z_]\w*|\$\{?\d|\$\?/g)].every(([name]) => !trust.untrusted.has(toArithmeticVariable(name)))

function toArithmeticVariable(name: string): string {
  if (name === '$?') return STATUS
  return name.startsWith('$') ? POSITIONALS : name
}

/** Commands that print nothing as long as they have no option to do so. */
const SILENT = new Set(
  ': true false [ test cd exit return break continue shift set local export mkdir touch rm wait sleep read'.split(' '),
)
const PRINTING_OPTION: Readonly<Record<string, RegExp>> = {
  cd: /^-$/,
  ...Object.fromEntries(['mkdir', 'touch', 'rm'].map((name) => [name, /^-\w*v|^--v/])),
  ...Object.fromEntries(['set', 'local', 'export'].map((name) => [name, /^-p$|^[-+]o$/])),
}
const PRODUCERS = new Set('mktemp date seq nproc id whoami uname dirname basename echo printf expr'.split(' '))

/** Returns true if a command prints nothing that the submission can choose. */
function hasTrustedOutput(trust: ScriptTrust, shellCommand: ShellCommand): boolean {
  const { kind, words, redirects, isPiped } = shellCommand
  if (isPiped) return true
  if (kind !== 'simple') return kind !== 'words' || redirects.length === 0
  const { command } = toCall(words)
  if (command === undefined) return words.length > 0
  const name = plainText(command) ?? ''
  return trust.functions.has(name) ? isTrustedFunction(trust, name) : printsTrusted(trust, shellCommand)
}

/** Returns true if a program prints nothing, or only what its arguments or, if the rule trusts numbers, a count decide. */
export function printsTrusted(trust: ScriptTrust, { words, redirects }: ShellCommand): boolean {
  const { command = [], args } = toCall(words)
  const name = plainText(command) ?? ''
  const isTrusted = args.every((word) => isTrustedWord(trust, word))
  // Messages about wrong arguments contain them.
  const hasMessages = redirects.some(({ operator }) => operator === '>&')
  if (!isTrusted) return !hasMessages && isSilent(name, args)
  const isFile = name === 'date' && args.some((word) => /^-\w*[fr]|^--[fr]/.test(plainText(word) ?? ''))
  if (/^(?:cd|pwd)$/.test(name) && trust.rule.trustsFileNames) return true
  return isSilent(name, args) || isQuiet(trust, name, args) || (PRODUCERS.has(name) && !isFile)
}

function isSilent(name: string, args: readonly ShellWord[]): boolean {
  const option = PRINTING_OPTION[name]
  const isPrinting = option && args.some((word) => option.test(plainText(word) ?? '-'))
  const isListing = /^(?:set|local|export)$/.test(name) && args.length === 0
  return SILENT.has(name) && !isPrinting && !isListing
}

/** Options with which a program only sets its status. */
const QUIET_OPTION: Readonly<Record<string, string>> = { cmp: '-s', sort: '-c' }

/** Returns true if a command prints nothing, or only a number that the rule trusts. */
function isQuiet({ rule: { trustsNumbers } }: ScriptTrust, name: string, args: readonly ShellWord[]): boolean {
  const texts = args.map((word) => plainText(word) ?? '')
  if (name === 'wc') return trustsNumbers && texts.every((text) => /^-[lwcm]$/.test(text))
  const quietOption = QUIET_OPTION[name]
  if (quietOption !== undefined) return texts.includes(quietOption)
  const options = texts.filter((text) => text.startsWith('-'))
  if (!/^[ef]?grep$/.test(name) || !options.every((option) => /^-(?:[EFGPivwxhsqcazo]+|e)$/.test(option))) return false
  // grep prints the names of files if there is more than one.
  const isCount = texts.length - options.length <= 2 && options.some((option) => option.includes('c'))
  return (isCount && trustsNumbers) || options.some((option) => option.includes('q'))
}
