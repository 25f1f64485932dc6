import { isOwnOperand, type OperandContext } from './shell-operands.ts'
import { isTrustedWord, quoted, type ScriptTrust } from './shell-trust.ts'
import { plainText, type ShellWord, type WordPart } from './shell-words.ts'

/** A submission that is used as a pattern, a program or an option decides the result of a comparison. */
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
  const untrusted = args.filter((word) => !isOwnOperand(context, word))
  if (hasForeignPattern(texts) || untrusted.some((word) => isGrepPattern(texts, args.indexOf(word))))
    return `calls ${name} with a pattern of the submission`
  return untrusted.length === 0 ? undefined : `calls ${name} with an option of the submission`
}

/** Returns true if patterns are read from a file that is not one of the tests. */
const hasForeignPattern = (texts: readonly string[]): boolean =>
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
  const isOwn = args.every((word, at) => isData(at) || isOwnOperand(context, word))
  const hasFile = texts.some((text) => /^-\w*[fL]|^--(?:from-file|library-path)/.test(text))
  if (!isOwn || hasFile) return 'calls jq with a program of the submission'
  return texts.some((text) => COMPUTED_PATTERN.test(text)) ? 'calls jq with a pattern of the submission' : undefined
}
