import { isTrustedWord, type ScriptTrust } from './shell-trust.ts'
import { plainText, type Redirect, type ShellWord } from './shell-words.ts'

/** Context of a script. `submission`: paths whose files come from the candidate, who can put links there. */
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
  const isFilling = /^(?:cp|mv|tee)$/.test(name)
  const filled = name === 'tee' ? operands : isFilling ? operands.slice(-1) : []
  const other =
    operands.find((word) => !isBelow(trust, word, OWN_PATH)) ??
    filled.find((word) => !isBelow(trust, word, OUTPUT_PATH))
  return other ? `calls ${name} on ${trust.resolve(other)?.slice(0, 60) ?? 'a computed path'}` : undefined
}
