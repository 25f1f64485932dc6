import { hasComputedPattern, hasOutputRedirection, isReadOnlySedScript } from './sed-and-awk.ts'
import { UnreadableScript } from './shell-cursor.ts'
import { checkGrader, checkSetpriv } from './shell-grader.ts'
import {
  checkExpansion,
  checkFileTests,
  checkGrep,
  checkInput,
  checkJq,
  checkPassedValues,
  checkPattern,
  checkPrintf,
  checkPytest,
  checkReader,
  checkRedirect,
  checkWriter,
  isReader,
  isTrustedOperand,
  OPERAND_RULE,
  withInputs,
} from './shell-operands.ts'
import { parseShell } from './shell-parser.ts'
import { checkProgramOutput } from './shell-program-output.ts'
import { checkReward, VALUE_RULE } from './shell-reward.ts'
import { checkComparedFiles } from './shell-streams.ts'
import { isAssigning, isTrustedArithmetic, isTrustedWord, quoted, readTrust, type ScriptTrust } from './shell-trust.ts'
import {
  ASSIGNMENT,
  leadingText,
  plainText,
  programName,
  type ShellCommand,
  type ShellWord,
  shorten,
  toCall,
  unquotedText,
  type WordPart,
  WRAPPERS,
} from './shell-words.ts'

/**
 * `isVerifierFile`: whether a path below /tests is a test file that can be read. `submission`: paths of the agent's files.
 * `otherScripts`: texts of the shell scripts that this one may exchange values with.
 */
type ScriptContext = {
  submission: readonly string[]
  isVerifierFile: (path: string) => boolean
  hasGrader: boolean
  otherScripts?: readonly string[]
  /** Further programs that may be run. */
  harmless?: ReadonlySet<string>
}

/** Other shells evaluate arithmetic in `[ ]`, and a login shell reads settings from the home directory. */
const INTERPRETER = /^#!\s*(?:\/usr(?:\/local)?)?\/bin\/(?:env )?(?:ba|da)?sh(?: +-[eux]+)?[ \t]*$/

/**
 * Returns why a test script may execute what the agent wrote. Undefined: every command of it is known to only read.
 * Unknown syntax counts as unsafe: a submission could exploit it. `outer`: context of the script that contains this one.
 */
export function findUnsafeCommand(text: string, context: ScriptContext, outer?: CheckContext): string | undefined {
  try {
    const [line = ''] = text.split(/\r?\n/, 1)
    if (line.startsWith('#!') && !INTERPRETER.test(line)) return `is run by ${shorten(line.slice(2))}`
    const commands = parse(text)
    const others = (context.otherScripts ?? []).flatMap(parse)
    const values = readTrust(commands, others, outer?.values, VALUE_RULE)
    const operands = readTrust(commands, others, outer?.operands, OPERAND_RULE)
    const trust = readTrust(commands, others, outer)
    return (
      checkCommands({ ...context, ...trust, values, operands }, commands) ??
      checkProgramOutput(trust, commands) ??
      checkComparedFiles({ ...context, ...trust }, commands) ??
      checkPassedValues(operands, commands) ??
      (context.hasGrader
        ? checkGrader({ ...context, ...trust, others, isNested: outer !== undefined }, commands)
        : undefined)
    )
  } catch (error) {
    if (error instanceof UnreadableScript) return `cannot be read as a shell script (${error.message})`
    if (error instanceof RangeError) return 'is nested too deeply to be read'
    throw error
  }
}

const parse = (text: string): ShellCommand[] => parseShell(text.replaceAll('\r\n', '\n'))

/**
 * `values`: trust in values that are written as a reward. `operands`: trust in values that are arguments of commands.
 * `isInputTrusted`: the command's input comes from the tests.
 */
type CheckContext = ScriptContext &
  ScriptTrust & { values: ScriptTrust; operands: ScriptTrust; isInputTrusted?: boolean }

const firstOf = <T>(items: readonly T[], check: (item: T) => string | undefined): string | undefined => {
  for (const item of items) {
    const reason = check(item)
    if (reason !== undefined) return reason
  }
  return undefined
}

const checkCommands = (context: CheckContext, commands: readonly ShellCommand[]): string | undefined =>
  firstOf(withInputs(context, commands), ([commandContext, command]) => checkCommand(commandContext, command)) ??
  checkReward(context.values, commands)

function checkCommand(context: CheckContext, command: ShellCommand): string | undefined {
  const { kind, words, redirects, text, body } = command
  const expanded = firstOf([...words, ...redirects.map(({ target }) => target)], (word) => checkParts(context, word))
  if (expanded !== undefined) return expanded
  const written = firstOf(redirects, (redirect) => checkRedirect(context, redirect) ?? checkInput(context, redirect))
  if (written !== undefined) return written
  if (kind === 'arithmetic') return checkArithmetic(context, text)
  if (kind === 'function') return checkCommands(context, body)
  if (kind === 'test') return checkDoubleBracket(context, words)
  if (kind === 'loop') return checkNames(words.slice(0, 1), 'for')
  if (kind === 'pattern') return firstOf(words, (word) => checkPattern(context, word))
  return kind === 'simple' ? checkSimple(context, words) : undefined
}

/** Operators of `${name…}` that evaluate neither arithmetic nor names that a value contains. */
const HARMLESS_OPERATOR =
  /^(?:(?:length)?(?:\[(?:@|\*|\d+|-1)\])?|(?:\[(?:@|\*|\d+)\])?(?::?[-=+?]|##?|%%?|\/[/#%]?|\^\^?|,,?)[\s\S]*|:\s*-?\d+(?::\d+)?)$/

function checkParts(context: CheckContext, parts: readonly WordPart[]): string | undefined {
  return firstOf(parts, (part) => {
    if (part.kind === 'substitution') return checkCommands(context, part.commands)
    if (part.kind === 'arithmetic') return checkArithmetic(context, part.text)
    if (part.kind === 'array') return firstOf(part.words, (word) => checkElement(word) ?? checkParts(context, word))
    return part.kind === 'text' ? undefined : checkVariable(context, part)
  })
}

function checkVariable(context: CheckContext, part: Extract<WordPart, { kind: 'variable' }>): string | undefined {
  const { name, operator, nested } = part
  if (!HARMLESS_OPERATOR.test(operator)) return `expands \${${name}${operator.slice(0, 20)}}`
  if (/^:?=/.test(operator) && CODE_VARIABLE.test(name)) return `sets ${name}`
  return checkExpansion(context, part) ?? checkParts(context, nested)
}

/** Refuses an array element with a computed subscript, because the shell evaluates it. */
const checkElement = (word: ShellWord): string | undefined =>
  leadingText(word).startsWith('[') && !/^\[\d+\]=/.test(leadingText(word))
    ? 'assigns to a computed element of an array'
    : undefined

const checkArithmetic = (context: CheckContext, text: string): string | undefined =>
  isTrustedArithmetic(context, text)
    ? undefined
    : `evaluates arithmetic (${shorten(text)}) that the submission can choose`

const PATTERN_COMPARISON = /^(?:==?|!=|=~)$/
const NUMBER_COMPARISON = /^-(?:eq|ne|lt|le|gt|ge)$/

function checkDoubleBracket(context: CheckContext, words: readonly ShellWord[]): string | undefined {
  const named = checkFileTests(context, words)
  if (named !== undefined) return named
  return firstOf([...words.entries()], ([at, word]) => {
    const operator = plainText(word) ?? ''
    if (operator === '-v' || operator === '-R') return 'tests a computed name'
    if (PATTERN_COMPARISON.test(operator)) return checkPattern(context, words[at + 1] ?? [])
    const sides = [words[at - 1], words[at + 1]].filter((side) => side !== undefined)
    return NUMBER_COMPARISON.test(operator) && !sides.every((side) => isNumber(context, side))
      ? `compares with ${operator} inside [[ ]], which evaluates arithmetic that the submission can choose`
      : undefined
  })
}

const isNumber = (context: CheckContext, word: ShellWord): boolean => {
  const text = plainText(word)
  return text === undefined ? isTrustedWord(context, quoted(word)) : isTrustedArithmetic(context, text)
}

function checkSimple(context: CheckContext, words: readonly ShellWord[]): string | undefined {
  const { assignments, command, args } = toCall(words)
  const assigned = firstOf(assignments, (word) => checkAssignment(context, word))
  if (assigned !== undefined || command === undefined) return assigned
  const name = context.resolve(command)
  const isComputed = plainText(command) === undefined
  if (name === undefined || (isComputed && (context.functions.has(name) || isAssigning(programName(name)))))
    return 'runs a command that is not written in the script'
  if (context.functions.has(name)) return undefined
  return checkProgram(context, name, args)
}

/** Variables that programs read code or settings from. */
const CODE_VARIABLE =
  /^(?:PATH|CDPATH|\w*LIBRARY_PATH|CLASSPATH|GOPATH|GOFLAGS|LOCPATH|NLSPATH|GCONV_PATH|BASH_\w+|ENV|IFS|PS4|HOME|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|(?:LD|NODE|PERL|GEM|LUA|GIT|CARGO|JAVA|XDG)_\w+|PYTHON[A-Z]+|PERL5\w+|RUBY\w+|AWK\w*PATH|(?:TAR|GREP)_OPTIONS|PYTEST_(?:ADDOPTS|PLUGINS))$/
/** Variables in which a relative or empty path means a file of the current directory. */
const PATH_VARIABLE = /PATH$|LIB$|ENV$|HOME$|^LD_|^PYTHON(?:STARTUP|USERBASE|INSPECT|BREAKPOINT)$|OPT|PLUGINS$|^XDG_/
const SYSTEM_PATHS = /^\/(?:usr|bin|sbin|opt|tests|root\/\.local|root\/\.cargo)(?:\/[\w.-]+)*\/?$/

const isSystemValue = (name: string, value: string): boolean =>
  value.split(':').every((path) => SYSTEM_PATHS.test(path) && !path.includes('..')) ||
  ((!PATH_VARIABLE.test(name) || name === 'NODE_ENV') && (name === 'IFS' || /^[^/:.]*$/.test(value)))

function checkAssignment(context: CheckContext, word: ShellWord): string | undefined {
  const [, name = '', subscript = ''] = ASSIGNMENT.exec(leadingText(word)) ?? []
  if (subscript !== '' && !/^\[\d+\]$/.test(subscript)) return 'assigns to a computed element of an array'
  if (!CODE_VARIABLE.test(name)) return undefined
  const value = context.resolve(word)?.replace(ASSIGNMENT, '')
  const isSystem = value !== undefined && isSystemValue(name, value)
  return isSystem || isExtendedPath(name, word) ? undefined : `sets ${name}`
}

/** Returns true if a word only adds system folders to the value that the image gave the variable. */
function isExtendedPath(name: string, word: ShellWord): boolean {
  const known = word.map((part) => {
    if (part.kind === 'text') return part.text
    return part.kind === 'variable' && (part.name === name || part.name === 'HOME') && part.operator === ''
      ? '/usr'
      : '/unknown'
  })
  return name === 'PATH' && isSystemValue(name, known.join('').replace(ASSIGNMENT, ''))
}

/** Matches no text. */
const NEVER = /(?!)/

/** Commands that are safe as long as the submission cannot choose an argument, with options that are never allowed. */
const REFUSED_ARGUMENTS: Readonly<Record<string, RegExp>> = {
  sort: /^(?:-[a-zA-Z]*[oTS]|--(?:c|o|t|fi))/,
  uniq: NEVER,
  cmp: NEVER,
  diff: /^(?:--(?:f|to|exclude-)|-\w*X)/,
  comm: NEVER,
  expr: NEVER,
  wait: /^-/,
  find: /^-(?:exec|ok|delete|fprint|fls|files0)/,
  tar: /^-(?:-|[a-zA-Z]*[^tzjJvf-])/,
  sed: /^-(?!n$|E$|r$|nE$|En$|nr$|z$)/,
  set: /^-\w*k|^keyword$/,
  gunzip: /^-(?!c$|dc$|cd$|k$)/,
  zcat: /^-/,
  hostname: /./,
}

type CommandCheck = (context: CheckContext, args: readonly ShellWord[], name: string) => string | undefined

function checkProgram(context: CheckContext, path: string, args: readonly ShellWord[]): string | undefined {
  const name = programName(path)
  if (name.startsWith('/tests/')) return context.isVerifierFile(name) ? undefined : `runs ${name}, which cannot be read`
  if (name.includes('/')) return `runs ${shorten(name)}`
  if (isReader(name)) return checkReader(context, args, name)
  const check = CHECKS.get(name.replace(/^(python)[\d.]+$/, '$1'))
  if (check === undefined && context.harmless?.has(name)) return undefined
  return check ? check(context, args, name) : `runs ${shorten(name)}, which is not known to only read`
}

/** Checks the arguments of `[`. It evaluates no arithmetic, but a word that is split can become the operator `-v`, which evaluates a name. */
function checkBracket(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const hasUntrusted = args.some((word) => !isTrustedWord(context, word))
  const texts = args.map(plainText)
  if (texts.includes('-v') || texts.includes('-R')) return 'tests a computed name'
  if (!hasUntrusted) return checkFileTests(context, args)
  if (texts.includes('-a') || texts.includes('-o')) return 'joins conditions inside [ ] that the submission can change'
  const isSplit = args.some((word) => isSplitWord(word) && !isTrustedWord(context, word))
  if (isSplit) return 'uses an unquoted variable inside [ ]'
  const operator = texts.find((text) => text !== undefined && NUMBER_COMPARISON.test(text))
  // For a text that is no number the comparison fails, and so counts as false.
  if (operator !== undefined && (operator !== '-eq' || texts.includes('!')))
    return `compares a text of the submission with ${operator}, which is false for a text that is no number`
  return checkFileTests(context, args)
}

const isSplitWord = (word: ShellWord): boolean =>
  word.some((part) => part.kind !== 'array' && !part.isQuoted && (part.kind !== 'text' || /[*?[]/.test(part.text)))

function checkTrusted(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const isTrusted = (word: ShellWord): boolean =>
    /^(?:expr|set)$/.test(name) ? isTrustedWord(context, word) : isTrustedOperand(context, word)
  const untrusted = args.some((word) => !isTrusted(word) || /[*?[]/.test(unquotedText(word)))
  if (untrusted) return `calls ${name} with arguments that the submission can choose`
  const refused = args.map((word) => context.resolve(word) ?? '').find((text) => REFUSED_ARGUMENTS[name]?.test(text))
  if (refused !== undefined) return `calls ${name} ${shorten(refused)}`
  if (name === 'sed') return checkSedScript(context, args)
  if (name === 'uniq' && args.filter((word) => !plainText(word)?.startsWith('-')).length > 1)
    return 'calls uniq to write a file'
  const isListing = name !== 'tar' || /^-?[zjJv]*t[zjJv]*f$/.test(plainText(args[0] ?? []) ?? '')
  return isListing ? undefined : 'calls tar to pack or unpack'
}

function checkSedScript(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const script = args.map((word) => context.resolve(word)).find((text) => !text?.startsWith('-'))
  return script !== undefined && isReadOnlySedScript(script)
    ? undefined
    : 'calls sed with a script that is not known to only read'
}

/** Checks a call of awk. Its program must be written in the script, start no other program and write no file. */
function checkAwk(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const options = args.map((word) => plainText(word) ?? '')
  const at = args.findIndex(
    (_, index) => !/^-(?:v|F.*)$/.test(options[index] ?? '') && !/^-[vF]$/.test(options[index - 1] ?? ''),
  )
  const program = context.resolve(args[at] ?? [])
  if (program === undefined || /^-|system|\||getline|@/.test(program) || hasOutputRedirection(program))
    return 'calls awk with a program that is not known to only read'
  if (args.some((word, index) => options[index - 1] !== '-v' && !isTrustedOperand(context, word)))
    return 'calls awk with arguments that the submission can choose'
  const constants = args.flatMap((word, index) => {
    const [, name] = ASSIGNMENT.exec(leadingText(word)) ?? []
    return options[index - 1] === '-v' && name !== undefined && isTrustedOperand(context, quoted(word)) ? [name] : []
  })
  return hasComputedPattern(program, constants) ? 'calls awk with a pattern of the submission' : undefined
}

function checkDeclaration(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const options = args.map((word) => plainText(word) ?? '').filter((text) => text.startsWith('-'))
  // The value of an array that is not written as one is evaluated again.
  const isText = args.some((word) => ASSIGNMENT.test(leadingText(word)) && !word.some(({ kind }) => kind === 'array'))
  const isArray = options.some((option) => /[aA]/.test(option)) && isText
  if (isArray || options.some((option) => /[in]/.test(option))) return `calls ${name} ${options.join(' ')}`
  return checkNames(args, name) ?? firstOf(args, (word) => checkAssignment(context, word))
}

/** Refuses computed names of variables: one can contain a subscript, which the shell evaluates. */
const checkNames = (args: readonly ShellWord[], name: string): string | undefined =>
  firstOf(args, (word) => {
    const text = plainText(word)
    if (ASSIGNMENT.test(leadingText(word)) && name !== 'read') return undefined
    if (text === undefined || !/^(?:-.*|\w+)$/.test(text)) return `calls ${name} with a computed name`
    return CODE_VARIABLE.test(text) && /^(?:read|for)$/.test(name) ? `sets ${text}` : undefined
  })

const READ_OPTION = /^-[ers]*(?:a|[dinNptu].*)?$/

/** Checks the names that `read` assigns to. Arguments of its options are no names. */
function checkRead(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const texts = args.map((word) => plainText(word) ?? '')
  const option = texts.find((text) => text.startsWith('-') && !READ_OPTION.test(text))
  if (option !== undefined) return `calls ${name} ${option}`
  const isArgument = (at: number): boolean => /^-[ers]*[dinNptu]$/.test(texts[at - 1] ?? '')
  if (args.some((word, at) => isArgument(at) && !isTrustedOperand(context, word)))
    return `calls ${name} with arguments that the submission can choose`
  const names = args.filter((_word, at) => !isArgument(at))
  return checkNames(names, name)
}

function checkNestedScript(context: CheckContext, word: ShellWord | undefined): string | undefined {
  const script = word && plainText(word)
  return script === undefined ? 'runs a computed script' : findUnsafeCommand(script, context, context)
}

const checkSource = (context: CheckContext, [file = []]: readonly ShellWord[]): string | undefined => {
  const path = context.resolve(file)
  return path?.startsWith('/tests/') && context.isVerifierFile(path)
    ? undefined
    : `sources ${shorten(path ?? 'a file')}`
}

function checkShell(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const [first = [], second] = args
  const option = plainText(first)
  if (option !== undefined && /^-[eux]*c$/.test(option)) return checkNestedScript(context, second)
  return checkInterpreter(context, args, name)
}

const INTERPRETER_OPTION: Readonly<Record<string, RegExp>> = { python: /^-[BEIsu]+$/, node: NEVER }

function checkInterpreter(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const option = INTERPRETER_OPTION[name.replace(/[\d.]+$/, '')] ?? /^-[eux]+$/
  const path = context.resolve(args.find((word) => !option.test(plainText(word) ?? '')) ?? [])
  if (!path?.startsWith('/tests/')) return `runs ${name} ${shorten(path ?? '')}`.trimEnd()
  if (!context.isVerifierFile(path)) return `runs ${shorten(path)}, which cannot be read`
  const isPassed = /^(?:python|node)/.test(name) && !args.every((word) => isTrustedOperand(context, word))
  return isPassed ? `calls ${name} with arguments that the submission can choose` : undefined
}

/** Checks a wrapper whose command is not known. */
function checkWrapper(_: CheckContext, [first]: readonly ShellWord[], name: string): string | undefined {
  const option = first && (plainText(first) ?? '')
  return option === undefined || (name === 'command' && /^-[vV]$/.test(option)) ? undefined : `calls ${name} ${option}`
}

const CHECKS = new Map<string, CommandCheck>(
  (
    [
      ['[ test', checkBracket],
      ['printf', checkPrintf],
      ['read', checkRead],
      ['grep egrep fgrep', checkGrep],
      ['jq', checkJq],
      ['mkdir touch rm rmdir chmod cp mv tee', checkWriter],
      [Object.keys(REFUSED_ARGUMENTS).join(' '), checkTrusted],
      ['awk gawk mawk nawk', checkAwk],
      ['export local declare typeset readonly unset', checkDeclaration],
      ['trap', (context, [script]) => checkNestedScript(context, script)],
      ['. source', checkSource],
      ['bash sh dash', checkShell],
      ['python node', checkInterpreter],
      ['pytest py.test', checkPytest],
      [WRAPPERS.join(' '), checkWrapper],
      ['setpriv', checkSetpriv],
    ] satisfies [string, CommandCheck][]
  ).flatMap(([names, check]) => names.split(' ').map((name) => [name, check])),
)
