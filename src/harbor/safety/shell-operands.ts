import { listOwnInputs, VALUE_RULE } from './shell-reward.ts'
import { isTrustedWord, type ScriptTrust, type TrustRule } from './shell-trust.ts'
import { plainText, type Redirect, type ShellCommand, type ShellWord } from './shell-words.ts'

// A submission that names the file, the count or the set that a command works with decides what it compares.

/** Trusts what the submission cannot choose, and names of its files that the shell lists. */
export const OPERAND_RULE: TrustRule = { ...VALUE_RULE, trustsFileNames: true }

/** `operands`: which values follow OPERAND_RULE. `isInputOwn`: the command's input comes from the tests. */
export type OperandContext = ScriptTrust & { operands: ScriptTrust; isInputOwn?: boolean }

export const isOwnOperand = ({ operands }: OperandContext, word: ShellWord): boolean => isTrustedWord(operands, word)

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

export function checkReader(context: OperandContext, args: readonly ShellWord[], name: string): string | undefined {
  if (PRINTERS.has(name)) return undefined
  if (!args.every((word) => isOwnOperand(context, word)))
    return `calls ${name} with arguments that the submission can choose`
  const texts = args.map((word) => context.resolve(word) ?? '')
  const option = /^(?:wc|du)$/.test(name)
    ? texts.find((text) => LIST_OPTION.test(text) || /^-\w*X/.test(text))
    : undefined
  if (option !== undefined) return `calls ${name} ${option.slice(0, 60)}`
  const isChecking = CHECKSUM.test(name) && texts.some((text) => /^(?:-\w*c|--c)/.test(text))
  const lists = texts.filter((text) => !/^-./.test(text))
  const isOwn = lists.length === 0 || lists.every((text) => text === '-') ? context.isInputOwn : lists.every(isTestPath)
  return isChecking && !isOwn ? `checks a list of the submission with ${name}` : undefined
}

const isTestPath = (path: string): boolean => /^\/tests\/(?!.*\.\.)/.test(path)

/** Checks that the file that a command reads is not named by the submission. */
export const checkInput = (context: OperandContext, { operator, target }: Redirect): string | undefined =>
  /^<[>&]?$/.test(operator) && !isOwnOperand(context, target) ? 'reads a file that the submission can name' : undefined

const FILE_TEST = /^-[abcdefghkprstuwxOGLNS]$/
const FILE_COMPARISON = /^-(?:nt|ot|ef)$/

/** Checks the operands of `[ -f … ]` and similar conditions. */
export function checkFileTests(context: OperandContext, words: readonly ShellWord[]): string | undefined {
  const isForeign = (word: ShellWord | undefined): boolean => word !== undefined && !isOwnOperand(context, word)
  const isNamed = words.some((word, at) => {
    const operator = plainText(word) ?? ''
    if (FILE_COMPARISON.test(operator) && isForeign(words[at - 1])) return true
    return (FILE_TEST.test(operator) || FILE_COMPARISON.test(operator)) && isForeign(words[at + 1])
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
  const isInputOwn = listOwnInputs(context.operands, commands)
  return commands.map((command, at) => [{ ...context, isInputOwn: isInputOwn[at] ?? false }, command])
}
