import { listCommandLists, VERIFIER_PROGRAM } from './shell-program-output.ts'
import { listTrustedInputs, VALUE_RULE } from './shell-reward.ts'
import { isTrustedWord, quoted, type ScriptTrust, type TrustRule } from './shell-trust.ts'
import {
  plainText,
  programName,
  type Redirect,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

/**
 * Trusts what the submission cannot choose, and names of its files that the shell lists. A submission that chooses another
 * argument of a command, such as a file or a count, decides what the command compares.
 */
export const OPERAND_RULE: TrustRule = { ...VALUE_RULE, trustsFileNames: true }

/** `operands`: trust that follows OPERAND_RULE. `isInputTrusted`: the command's input comes from the tests. */
type OperandContext = ScriptTrust & { operands: ScriptTrust; isInputTrusted?: boolean }

export const isTrustedOperand = ({ operands }: OperandContext, word: ShellWord): boolean =>
  isTrustedWord(operands, word)

/** Programs and builtins that only print their arguments or set a status. */
const PRINTERS = new Set(': true false echo basename dirname exit return break continue shift pwd seq'.split(' '))
/** Programs that only read and print, as long as the submission does not choose their arguments. */
const READERS = new Set(
  'cat head tail cut tr wc ls stat realpath readlink od base64 rev nl fold tac paste sleep date id whoami uname nproc mktemp md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum du df which type printenv cd shopt umask ulimit'.split(
    ' ',
  ),
)

export const isReader = (name: string): boolean => PRINTERS.has(name) || READERS.has(name)

/** Options that name a file with names of files or with patterns. */
const LIST_OPTION = /^(?:--files0-from|--exclude-from|--f)/
const CHECKSUM = /^(?:md5|sha\d+|b2|ck)sum$/

/** Checks a program that only reads and prints: the submission must not choose its arguments, nor a list of checksums. */
export function checkReader(context: OperandContext, args: readonly ShellWord[], name: string): string | undefined {
  if (PRINTERS.has(name)) return undefined
  if (!args.every((word) => isTrustedOperand(context, word)))
    return `calls ${name} with arguments that the submission can choose`
  const texts = args.map((word) => context.resolve(word) ?? '')
  const option = /^(?:wc|du)$/.test(name)
    ? texts.find((text) => LIST_OPTION.test(text) || /^-\w*X/.test(text))
    : undefined
  if (option !== undefined) return `calls ${name} ${option.slice(0, 60)}`
  const isChecking = CHECKSUM.test(name) && texts.some((text) => /^(?:-\w*c|--c)/.test(text))
  const lists = texts.filter((text) => !/^-./.test(text))
  const isTrusted =
    lists.length === 0 || lists.every((text) => text === '-') ? context.isInputTrusted : lists.every(isTestPath)
  return isChecking && !isTrusted ? `checks a list of the submission with ${name}` : undefined
}

const isTestPath = (path: string): boolean => /^\/tests\/(?!.*\.\.)/.test(path)

/** Checks that the file that a command reads is not named by the submission. */
export const checkInput = (context: OperandContext, { operator, target }: Redirect): string | undefined =>
  /^<[>&]?$/.test(operator) && !isTrustedOperand(context, target)
    ? 'reads a file that the submission can name'
    : undefined

const FILE_TEST = /^-[abcdefghkprstuwxOGLNS]$/
const FILE_COMPARISON = /^-(?:nt|ot|ef)$/

/** Checks the operands of `[ -f … ]` and similar conditions. */
export function checkFileTests(context: OperandContext, words: readonly ShellWord[]): string | undefined {
  const isUntrusted = (word: ShellWord | undefined): boolean => word !== undefined && !isTrustedOperand(context, word)
  const isNamed = words.some((word, at) => {
    const operator = plainText(word) ?? ''
    if (FILE_COMPARISON.test(operator) && isUntrusted(words[at - 1])) return true
    return (FILE_TEST.test(operator) || FILE_COMPARISON.test(operator)) && isUntrusted(words[at + 1])
  })
  return isNamed ? 'tests a file that the submission can name' : undefined
}

/** Checks that the format is the script's, and that no value is assigned: `-v` and `%n` assign to a name, and evaluate it. */
export function checkPrintf(context: ScriptTrust, args: readonly ShellWord[]): string | undefined {
  const [format = []] = plainText(args[0] ?? []) === '--' ? args.slice(1) : args
  if (plainText(format)?.startsWith('-v')) return 'assigns with printf -v'
  if (!isTrustedWord(context, format)) return 'prints with a format of the submission'
  const written = format.map((part) => (part.kind === 'text' ? part.text : (context.resolve([part]) ?? ''))).join('')
  return /%[^%a-zA-Z]*[hlLjzt]*n/.test(written.replaceAll('%%', '')) ? 'assigns with printf %n' : undefined
}

/** Returns each command with a context that says whether its input comes from the tests. */
export function withInputs<C extends OperandContext>(
  context: C,
  commands: readonly ShellCommand[],
): [C, ShellCommand][] {
  const isInputTrusted = listTrustedInputs(context.operands, commands)
  return commands.map((command, at) => [{ ...context, isInputTrusted: isInputTrusted[at] ?? false }, command])
}

/** Reason for a pattern that the submission can choose: it can match everything. */
const MATCHED = 'matches against a pattern of the submission'

/** Checks a word that is a pattern where it is not quoted: of `case`, and on the right side of `==` and `=~`. */
export const checkPattern = (trust: ScriptTrust, word: ShellWord): string | undefined =>
  word.every((part) => part.kind === 'text' || isLiteral(part) || isTrustedWord(trust, quoted([part])))
    ? undefined
    : MATCHED

const isLiteral = (part: WordPart): boolean => part.kind !== 'array' && part.isQuoted

/** Checks the pattern of `${name#…}` and similar operators. Quotes inside it are not taken into account. */
export function checkExpansion(trust: ScriptTrust, part: Extract<WordPart, { kind: 'variable' }>): string | undefined {
  const isPattern = /^(?:\[[^\]]*\])?[#%/^,]/.test(part.operator)
  return isPattern && !isTrustedWord(trust, quoted(part.nested)) ? MATCHED : undefined
}

/** Checks that patterns are written in the script or in a file of the tests, and that no file name can be an option. */
export function checkGrep(context: OperandContext, args: readonly ShellWord[], name: string): string | undefined {
  const texts = args.map((word) => context.resolve(word) ?? '')
  const untrusted = args.filter((word) => !isTrustedOperand(context, word))
  if (hasUntrustedPattern(texts) || untrusted.some((word) => isGrepPattern(texts, args.indexOf(word))))
    return `calls ${name} with a pattern of the submission`
  return untrusted.length === 0 ? undefined : `calls ${name} with an option of the submission`
}

/** Returns true if patterns are read from a file that is not one of the tests. */
const hasUntrustedPattern = (texts: readonly string[]): boolean =>
  texts.some((text, at) => {
    const [option, attached = ''] = /^(?:-\w*f|--file=?)(.*)$/.exec(text) ?? []
    const path = attached === '' ? (texts[at + 1] ?? '') : attached
    return option !== undefined && !/^\/tests\/(?!.*\.\.)/.test(path)
  })

/** Returns true if an argument is a pattern: behind `-e`, or the first operand if no option gives patterns. */
function isGrepPattern(texts: readonly string[], at: number): boolean {
  if (texts.some((text) => /^(?:-\w*[ef]|--(?:regexp|file))/.test(text)))
    return /^(?:-\w*e|--regexp)$/.test(texts[at - 1] ?? '')
  const isOperand = (text: string, index: number): boolean =>
    !text.startsWith('-') && !/^-\w*[mABCdD]$/.test(texts[index - 1] ?? '')
  return texts.findIndex(isOperand) === at
}

/** A function of jq whose pattern is not written as a text. */
const COMPUTED_PATTERN = /\b(?:test|match|capture|scan|splits?|g?sub)\((?!\s*"(?:[^"\\]|\\[^(])*"\s*[;)])/

/** Checks that the program of jq and the patterns in it are written in the script. */
export function checkJq(context: OperandContext, args: readonly ShellWord[]): string | undefined {
  const texts = args.map((word) => plainText(word) ?? '')
  const isData = (at: number): boolean => /^--(?:arg|argjson)$/.test(texts[at - 2] ?? '')
  const isTrusted = args.every((word, at) => isData(at) || isTrustedOperand(context, word))
  const hasFile = texts.some((text) => /^-\w*[fL]|^--(?:from-file|library-path)|\b(?:import|include) "/.test(text))
  if (!isTrusted || hasFile) return 'calls jq with a program of the submission'
  return texts.some((text) => COMPUTED_PATTERN.test(text)) ? 'calls jq with a pattern of the submission' : undefined
}

/** Checks that no program of the tests gets contents of the submission in a variable, where they are not followed. */
export function checkPassedValues(operands: ScriptTrust, commands: readonly ShellCommand[]): string | undefined {
  const calls = [...listCommandLists(commands)].flatMap(({ list }) => list.map(({ words }) => toCall(words)))
  const isProgram = (command: ShellWord = []): boolean => VERIFIER_PROGRAM.test(programName(plainText(command) ?? ''))
  const isTrusted = (word: ShellWord): boolean =>
    isTrustedWord(operands, quoted(word)) && !operands.untrusted.has(plainText(word) ?? '')
  const passed = calls.flatMap(({ assignments, command, args }) => {
    if (isProgram(command)) return assignments
    return /^(?:export|declare|typeset|readonly)$/.test(plainText(command ?? []) ?? '') ? args : []
  })
  return calls.some(({ command }) => isProgram(command)) && !passed.every(isTrusted)
    ? 'passes contents of the submission to its test program in a variable'
    : undefined
}

/** Context of a script. `submission`: paths whose files come from the agent, which can put links there. */
type WriteContext = ScriptTrust & { submission: readonly string[] }

/** Folders whose files are never executed. What a script writes can come from the submission. */
const OUTPUT_PATH = /^\/(?:logs|tmp)(?:\/|$)/
const OWN_PATH = /^\/(?:logs|tests|tmp)(?:\/|$)/
const DEVICE = /^\/dev\/(?:null|stdout|stderr|tty|fd\/\d+)$/

/** Checks that output goes to a file that is never executed or loaded. */
export function checkRedirect(trust: WriteContext, { operator, target }: Redirect): string | undefined {
  if (!operator.includes('>')) return undefined
  if (!isTrustedWord(trust, target)) return 'writes to a file that the submission can name'
  const path = trust.resolve(target)
  if (operator.endsWith('&') && /^\d*-?$/.test(path ?? '/')) return undefined
  if (DEVICE.test(path ?? '') || isBelow(trust, target, OUTPUT_PATH)) return undefined
  return `writes to ${path?.slice(0, 60) ?? 'a computed path'}`
}

/**
 * Returns true if a path is in one of the folders and apart from the submission. The beginning of a computed path must
 * be known.
 */
function isBelow(trust: WriteContext, word: ShellWord, folders: RegExp): boolean {
  const end = word.findIndex((part) => trust.resolve([part]) === undefined)
  const start = trust.resolve(end === -1 ? word : word.slice(0, end)) ?? ''
  const rest = end === -1 ? [] : word.slice(end)
  const isKnown = rest.length === 0 || (/^\/\w+\//.test(start) && isTrustedWord(trust, rest))
  const hasParent = start.includes('..') || rest.some((part) => part.kind === 'text' && part.text.includes('..'))
  const known = toSteps(rest.length === 0 ? start : start.slice(0, start.lastIndexOf('/')))
  return (
    isKnown && folders.test(start) && !hasParent && !trust.submission.some((path) => overlaps(known, toSteps(path)))
  )
}

const toSteps = (path: string): string[] => path.split('/').filter((step) => step !== '' && step !== '.')

/** Returns true if one path is, contains or lies in the other. */
const overlaps = (first: readonly string[], second: readonly string[]): boolean =>
  first.every((step, at) => at >= second.length || step === second[at])

/** Options of the commands that copy and write. Others can name a target or make links. */
const WRITER_OPTION = /^(?:[-+][afnprRuvwxXog=+,]+|--(?:parents|recursive|force|append|verbose))$/

/**
 * Checks commands that change or create files: their operands must be the verifier's own, and nothing may be copied or
 * written into the folder of the tests, whose files are executed.
 */
export function checkWriter(trust: WriteContext, args: readonly ShellWord[], name: string): string | undefined {
  const option = args
    .map((word) => plainText(word) ?? '')
    .find((text) => /^[-+]/.test(text) && !WRITER_OPTION.test(text))
  if (option !== undefined) return `calls ${name} ${option.slice(0, 60)}`
  const operands = args.filter((word) => !/^[-+]|^[0-7]{3,4}$/.test(plainText(word) ?? ''))
  const targets = /^(?:cp|mv)$/.test(name) ? operands.slice(-1) : operands
  const filled = /^(?:cp|mv|tee)$/.test(name) ? targets : []
  const other =
    operands.find((word) => !isBelow(trust, word, OWN_PATH)) ??
    filled.find((word) => !isBelow(trust, word, OUTPUT_PATH))
  return other ? `calls ${name} on ${trust.resolve(other)?.slice(0, 60) ?? 'a computed path'}` : undefined
}

const PYTEST_OPTION =
  /^-(?:r\w*|v+|q+|x|s|l|p|-(?:tb=\w+|color=\w+|maxfail=\d+|durations=\d+|ctrf|no-header|no-summary|disable-warnings|junitxml=\/logs\/[\w/.-]*|capture=\w+))$/

/** Checks that pytest runs only tests below /tests, because it loads settings and plugins from the folders of its operands. */
export function checkPytest(context: OperandContext, args: readonly ShellWord[]): string | undefined {
  const texts = args.map((word) => context.resolve(word))
  const isTrusted = texts.every((text, at) => {
    if (text === undefined || text.includes('..')) return false
    if (texts[at - 1] === '-p') return text.startsWith('no:')
    if (texts[at - 1] === '--ctrf') return text.startsWith('/logs/')
    return text.startsWith('-') ? PYTEST_OPTION.test(text) : /^\/tests(?:\/|$)/.test(text)
  })
  return isTrusted && texts.some((text) => text?.startsWith('/tests')) ? undefined : 'runs pytest on the project'
}
