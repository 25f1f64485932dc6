import { UnreadableScript } from './shell-cursor.ts'
import { parseShell } from './shell-parser.ts'
import { isTrustedArithmetic, isTrustedWord, readTrust, type ScriptTrust } from './shell-trust.ts'
import { plainText, type ShellCommand, type ShellWord, type WordPart } from './shell-words.ts'

/** `isVerifierFile`: whether a path below /tests is a test file that can be read. */
type ScriptContext = { isVerifierFile: (path: string) => boolean; hasGrader: boolean }

/**
 * Returns why a test script may execute what the candidate wrote. Undefined: every command of it is known to only read.
 * Unknown commands and syntax count as unsafe, because a submission can be made for whatever a script does with it.
 */
export function findUnsafeCommand(text: string, context: ScriptContext, around?: ScriptTrust): string | undefined {
  try {
    const commands = parseShell(text.replaceAll('\r\n', '\n'))
    return checkCommands({ ...context, ...readTrust(commands, around) }, commands)
  } catch (error) {
    if (error instanceof UnreadableScript) return `cannot be read as a shell script (${error.message})`
    throw error
  }
}

type CheckContext = ScriptContext & ScriptTrust

const firstOf = <T>(items: readonly T[], check: (item: T) => string | undefined): string | undefined => {
  for (const item of items) {
    const reason = check(item)
    if (reason !== undefined) return reason
  }
  return undefined
}

const checkCommands = (context: CheckContext, commands: readonly ShellCommand[]): string | undefined =>
  firstOf(commands, (command) => checkCommand(context, command))

function checkCommand(context: CheckContext, command: ShellCommand): string | undefined {
  const { kind, words, redirects, text, body } = command
  const expanded = firstOf([...words, ...redirects.map(({ target }) => target)], (word) => checkParts(context, word))
  if (expanded !== undefined) return expanded
  const target = firstOf(redirects, (redirect) =>
    redirect.operator.includes('>') && !isTrustedWord(context, redirect.target)
      ? 'writes to a file that the submission can name'
      : undefined,
  )
  if (target !== undefined) return target
  if (kind === 'arithmetic') return checkArithmetic(context, text)
  if (kind === 'function') return checkCommands(context, body)
  if (kind === 'test') return checkDoubleBracket(context, words)
  if (kind === 'loop') return plainText(words[0] ?? []) === undefined ? 'assigns to a computed name' : undefined
  return kind === 'simple' ? checkSimple(context, words) : undefined
}

/** Operators of `${name…}` that evaluate neither arithmetic nor names that a value contains. */
const HARMLESS_OPERATOR =
  /^(?:(?:length)?(?:\[(?:@|\*|\d+|-1)\])?|(?:\[(?:@|\*|\d+)\])?(?::?[-=+?]|##?|%%?|\/[/#%]?|\^\^?|,,?)[\s\S]*|:\s*-?\d+(?::\d+)?)$/

function checkParts(context: CheckContext, parts: readonly WordPart[]): string | undefined {
  return firstOf(parts, (part) => {
    if (part.kind === 'substitution') return checkCommands(context, part.commands)
    if (part.kind === 'arithmetic') return checkArithmetic(context, part.text)
    if (part.kind === 'array') return firstOf(part.words, (word) => checkParts(context, word))
    if (part.kind === 'text') return undefined
    if (!HARMLESS_OPERATOR.test(part.operator)) return `expands \${${part.name}${part.operator.slice(0, 20)}}`
    return checkParts(context, part.nested)
  })
}

const checkArithmetic = (context: CheckContext, text: string): string | undefined =>
  isTrustedArithmetic(context, text)
    ? undefined
    : `evaluates arithmetic (${shorten(text)}) that the submission can name`

const NUMBER_COMPARISON = /^-(?:eq|ne|lt|le|gt|ge)$/

function checkDoubleBracket(context: CheckContext, words: readonly ShellWord[]): string | undefined {
  const texts = words.map(plainText)
  for (const [at, text] of texts.entries()) {
    if (text === '-v' || text === '-R') return 'tests a computed name'
    const sides = [words[at - 1], words[at + 1]].filter((side) => side !== undefined)
    if (text !== undefined && NUMBER_COMPARISON.test(text) && !sides.every((side) => isNumber(context, side)))
      return `compares with ${text} inside [[ ]], which evaluates arithmetic that the submission can name`
  }
  return undefined
}

const isNumber = (context: CheckContext, word: ShellWord): boolean => {
  const text = plainText(word)
  return text === undefined ? isTrustedWord(context, word) : isTrustedArithmetic(context, text)
}

const ASSIGNMENT = /^([A-Za-z_]\w*)(\[[^\]]*\])?\+?=/

function checkSimple(context: CheckContext, all: readonly ShellWord[]): string | undefined {
  const first = all.findIndex((word) => !ASSIGNMENT.test(leadingText(word)))
  const assignments = first === -1 ? all : all.slice(0, first)
  const words = first === -1 ? [] : all.slice(first)
  const assigned = firstOf(assignments, (word) => checkAssignment(context, word))
  if (assigned !== undefined || words.length === 0) return assigned
  const [commandWord = [], ...args] = words
  const name = context.resolve(commandWord)
  if (name === undefined) return 'runs a command that is not written in the script'
  if (context.functions.has(name)) return undefined
  return checkNamed(context, name, args)
}

const leadingText = (word: ShellWord): string => {
  const [first] = word
  return first?.kind === 'text' && !first.isQuoted ? first.text : ''
}

/** Variables that programs read code or settings from. */
const CODE_VARIABLE =
  /^(?:PATH|CDPATH|\w*LIBRARY_PATH|CLASSPATH|GOPATH|GOFLAGS|LOCPATH|GCONV_PATH|BASH_ENV|ENV|IFS|PS4|HOME|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|(?:LD|NODE|PERL|GEM|LUA|GIT|CARGO|JAVA)_\w+|PYTHON[A-Z]+|PERL5\w+|RUBY\w+|AWK\w*PATH|(?:TAR|GREP)_OPTIONS|PYTEST_(?:ADDOPTS|PLUGINS))$/
const SYSTEM_VALUE = /^(?:[^/:.]*|(?:\/(?:usr|bin|sbin|opt|tests|root\/\.local|root\/\.cargo)(?:\/[\w.-]+)*|:)*)$/

function checkAssignment(context: CheckContext, word: ShellWord): string | undefined {
  const [, name = '', subscript = ''] = ASSIGNMENT.exec(leadingText(word)) ?? []
  if (subscript !== '' && !/^\[\d+\]$/.test(subscript)) return 'assigns to a computed element of an array'
  if (!CODE_VARIABLE.test(name)) return undefined
  const value = context.resolve(word)?.slice(name.length + 1)
  const isSystem = value !== undefined && SYSTEM_VALUE.test(value) && !value.includes('..')
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
  return name === 'PATH' && SYSTEM_VALUE.test(known.join('').slice(name.length + 1))
}

/** Programs and builtins that only read and print, with whatever arguments. */
const READERS: ReadonlySet<string> = new Set(
  ': true false echo cat head tail cut tr wc cmp diff grep egrep fgrep ls stat basename dirname realpath readlink od base64 rev nl fold tac seq expr comm paste sleep date id whoami uname nproc mktemp md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum jq du df which type printenv exit return break continue shift wait cd pwd shopt umask ulimit'.split(
    ' ',
  ),
)
/** Commands that are safe as long as the submission cannot choose an argument, with options that are never allowed. */
const REFUSED_ARGUMENTS: Readonly<Record<string, RegExp>> = {
  sort: /^(?:-[a-zA-Z]*[oTS]|--(?:c|o|t|fi))/,
  uniq: /^$/,
  find: /^-(?:exec|ok|delete|fprint|fls|files0)/,
  tar: /^-(?:-|[a-zA-Z]*[^tzjJvf-])/,
  sed: /^-(?!n$|E$|r$|nE$|En$|nr$|z$)/,
  set: /^$/,
  gunzip: /^-(?!c$|dc$|cd$|k$)/,
  zcat: /^-/,
  hostname: /./,
}

type CommandCheck = (context: CheckContext, args: readonly ShellWord[], name: string) => string | undefined

function checkNamed(context: CheckContext, path: string, args: readonly ShellWord[]): string | undefined {
  const name = path.replace(/^(?:\/usr(?:\/local)?)?\/s?bin\//, '')
  if (name.startsWith('/tests/')) return context.isVerifierFile(name) ? undefined : `runs ${name}, which cannot be read`
  if (name.includes('/')) return `runs ${shorten(name)}`
  if (READERS.has(name)) return undefined
  const check = CHECKS.get(name.replace(/^(python)[\d.]+$/, '$1'))
  return check ? check(context, args, name) : `runs ${shorten(name)}, which is not known to only read`
}

/** A grader runs what the candidate wrote as another user than root. */
const checkSetpriv: CommandCheck = (context, args) =>
  context.hasGrader && args.some((word) => /^--reuid=[1-9]/.test(plainText(word) ?? ''))
    ? undefined
    : 'runs setpriv, which is not known to only read'

/** `[` evaluates no arithmetic, but a word that is split can become the operator `-v`, which evaluates a name. */
function checkBracket(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const hasUntrusted = args.some((word) => !isTrustedWord(context, word))
  const texts = args.map(plainText)
  if (texts.includes('-v') || texts.includes('-R')) return 'tests a computed name'
  if (!hasUntrusted) return undefined
  if (texts.includes('-a') || texts.includes('-o')) return 'joins conditions inside [ ] that the submission can change'
  const isSplit = args.some((word) => isSplitWord(word) && !isTrustedWord(context, word))
  return isSplit ? 'uses an unquoted variable inside [ ]' : undefined
}

const isSplitWord = (word: ShellWord): boolean =>
  word.some((part) => part.kind !== 'array' && !part.isQuoted && (part.kind !== 'text' || /[*?[]/.test(part.text)))

function checkPrintf(context: CheckContext, [format = []]: readonly ShellWord[]): string | undefined {
  if (plainText(format) === '-v') return 'assigns with printf -v'
  const first = format.find((part) => part.kind !== 'text' || part.text !== '')
  const isSafe = isTrustedWord(context, format) || (first?.kind === 'text' && !first.text.startsWith('-'))
  return isSafe ? undefined : 'prints with a format of the submission'
}

const OWN_PATH = /^\/(?:logs|tests|tmp)(?:\/|$)/

function checkWriter(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const operands = args.filter((word) => !/^[-+]|^[0-7]{3,4}$/.test(plainText(word) ?? ''))
  const isOwn = (word: ShellWord): boolean => {
    const path = context.resolve(word)
    if (path !== undefined) return OWN_PATH.test(path) && !path.includes('..')
    return isTrustedWord(context, word) && !/^[^/]/.test(leadingText(word))
  }
  const other = operands.find((word) => !isOwn(word))
  return other ? `calls ${name} on ${shorten(context.resolve(other) ?? 'a computed path')}` : undefined
}

function checkTrusted(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const untrusted = args.some((word) => !isTrustedWord(context, word) || /[*?[]/.test(unquotedText(word)))
  if (untrusted) return `calls ${name} with arguments that the submission can choose`
  const refused = args.map((word) => context.resolve(word) ?? '').find((text) => REFUSED_ARGUMENTS[name]?.test(text))
  if (refused !== undefined && refused !== '') return `calls ${name} ${shorten(refused)}`
  if (name === 'sed') return checkSedScript(context, args)
  const isListing = name !== 'tar' || /^-?[zjJv]*t[zjJv]*f$/.test(plainText(args[0] ?? []) ?? '')
  return isListing ? undefined : 'calls tar to pack or unpack'
}

/** The commands `e` and `w` and the flags of the same names start programs and write files. */
function checkSedScript(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const script = args.map((word) => context.resolve(word)).find((text) => !text?.startsWith('-'))
  const isSafe =
    script !== undefined && !/(?:^|[;{}\d$/!\s])[ewW](?:\s|$)|[/|#,@]\w*[ew]\w*\s*(?:[;}\n]|$)/.test(script)
  return isSafe ? undefined : 'calls sed with a script that is not known to only read'
}

const unquotedText = (word: ShellWord): string =>
  word.map((part) => (part.kind === 'text' && !part.isQuoted ? part.text : '')).join('')

/** The program must be written in the script, and start no program and write no file. */
function checkAwk(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const options = args.map((word) => plainText(word) ?? '')
  const at = args.findIndex(
    (_, index) => !/^-(?:v|F.*)$/.test(options[index] ?? '') && !/^-[vF]$/.test(options[index - 1] ?? ''),
  )
  const program = context.resolve(args[at] ?? [])
  // Behind print, a greater-than sign writes to a file unless it stands in parentheses.
  const outside = program?.replace(/\([^()]*\)/g, '')
  const isSafe =
    program !== undefined && !/^-|system|\||getline|@/.test(program) && !/printf?\b[^;}\n]*>/.test(outside ?? '')
  return isSafe ? undefined : 'calls awk with a program that is not known to only read'
}

function checkDeclaration(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const options = args.map((word) => plainText(word) ?? '').filter((text) => text.startsWith('-'))
  if (options.some((option) => /[in]/.test(option))) return `calls ${name} ${options.join(' ')}`
  return checkNames(args, name) ?? firstOf(args, (word) => checkAssignment(context, word))
}

/** Names of variables must be written in the script: a computed one can contain a subscript, which is evaluated. */
const checkNames = (args: readonly ShellWord[], name: string): string | undefined =>
  args.every((word) => plainText(word) !== undefined || ASSIGNMENT.test(leadingText(word)))
    ? undefined
    : `calls ${name} with a computed name`

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

function checkInterpreter(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const path = context.resolve(args.find((word) => !/^-[BEIsuxe]+$/.test(plainText(word) ?? '')) ?? [])
  if (!path?.startsWith('/tests/')) return `runs ${name} ${shorten(path ?? '')}`.trimEnd()
  return context.isVerifierFile(path) ? undefined : `runs ${shorten(path)}, which cannot be read`
}

const PYTEST_OPTION =
  /^-(?:r\w*|v+|q+|x|s|l|p|-(?:tb=\w+|color=\w+|maxfail=\d+|durations=\d+|ctrf|no-header|no-summary|disable-warnings|junitxml=\/logs\/[\w/.-]*|capture=\w+))$/

/** Pytest loads settings and plugins from the folders of its operands. */
function checkPytest(context: CheckContext, args: readonly ShellWord[]): string | undefined {
  const texts = args.map((word) => context.resolve(word))
  const isOwn = texts.every((text, at) => {
    if (text === undefined || text.includes('..')) return false
    if (texts[at - 1] === '-p') return text.startsWith('no:')
    if (texts[at - 1] === '--ctrf') return text.startsWith('/logs/')
    return text.startsWith('-') ? PYTEST_OPTION.test(text) : /^\/tests(?:\/|$)/.test(text)
  })
  return isOwn && texts.some((text) => text?.startsWith('/tests')) ? undefined : 'runs pytest on the project'
}

/** Checks the command that another one runs. */
function checkPrefix(context: CheckContext, args: readonly ShellWord[], name: string): string | undefined {
  const texts = args.map((word) => plainText(word) ?? '')
  if (name === 'command' && /^-[vV]$/.test(texts[0] ?? '')) return undefined
  const isOption = name === 'timeout' ? /^(?:-.*|[\d.]+[smhd]?|[A-Z]+)$/ : /^-p$/
  const at = texts.findIndex((text) => !isOption.test(text))
  if (at === -1) return undefined
  return texts[at]?.startsWith('-') ? `calls ${name} ${texts[at]}` : checkSimple(context, args.slice(at))
}

const checkRead: CommandCheck = (_, args, name) => checkNames(args, name)

const CHECKS = new Map<string, CommandCheck>(
  (
    [
      ['[ test', checkBracket],
      ['printf', checkPrintf],
      ['read', checkRead],
      // Commands that change or create files. Their operands must be the verifier's own.
      ['mkdir touch rm rmdir chmod cp mv tee', checkWriter],
      [Object.keys(REFUSED_ARGUMENTS).join(' '), checkTrusted],
      ['awk gawk mawk nawk', checkAwk],
      ['export local declare typeset readonly unset', checkDeclaration],
      ['trap', (context, [script]) => checkNestedScript(context, script)],
      ['. source', checkSource],
      ['bash sh dash', checkShell],
      ['python node', checkInterpreter],
      ['pytest py.test', checkPytest],
      // Commands that run the command behind their options.
      ['timeout command builtin exec env nice nohup', checkPrefix],
      ['setpriv', checkSetpriv],
    ] satisfies [string, CommandCheck][]
  ).flatMap(([names, check]) => names.split(' ').map((name) => [name, check])),
)

const shorten = (text: string): string => {
  const line = text.trim().replaceAll(/\s+/g, ' ')
  return line.length > 60 ? `${line.slice(0, 60)}…` : line
}
