import { plainText, type ShellCommand, type ShellWord, type WordPart } from './shell-words.ts'

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
