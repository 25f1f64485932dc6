import { isTrustedWord, type ScriptTrust } from './shell-trust.ts'
import { plainText, type Redirect, type ShellWord } from './shell-words.ts'

/** Folders whose files are never executed. What a script writes can come from the submission. */
const OUTPUT_PATH = /^\/(?:logs|tmp)(?:\/|$)/
const OWN_PATH = /^\/(?:logs|tests|tmp)(?:\/|$)/
const DEVICE = /^\/dev\/(?:null|stdout|stderr|tty|fd\/\d+)$/

/** Checks that output goes to a file that is never executed or loaded. */
export function checkRedirect(trust: ScriptTrust, { operator, target }: Redirect): string | undefined {
  if (!operator.includes('>')) return undefined
  if (!isTrustedWord(trust, target)) return 'writes to a file that the submission can name'
  const path = trust.resolve(target)
  if (operator.endsWith('&') && /^\d*-?$/.test(path ?? '/')) return undefined
  if (DEVICE.test(path ?? '') || isBelow(trust, target, OUTPUT_PATH)) return undefined
  return `writes to ${path?.slice(0, 60) ?? 'a computed path'}`
}

/** Returns true if a path is in one of the folders. Of a computed path, the beginning must be known. */
function isBelow(trust: ScriptTrust, word: ShellWord, folders: RegExp): boolean {
  const end = word.findIndex((part) => trust.resolve([part]) === undefined)
  const start = trust.resolve(end === -1 ? word : word.slice(0, end)) ?? ''
  const rest = end === -1 ? [] : word.slice(end)
  const isKnown = rest.length === 0 || (/^\/\w+\//.test(start) && isTrustedWord(trust, rest))
  const hasParent = start.includes('..') || rest.some((part) => part.kind === 'text' && part.text.includes('..'))
  return isKnown && folders.test(start) && !hasParent
}

/** Options of the commands that copy and write. Others can name a target or make links. */
const WRITER_OPTION = /^(?:[-+][afnprRuvwxXog=+,]+|--(?:parents|recursive|force|append|verbose))$/

/**
 * Checks commands that change or create files: their operands must be the verifier's own, and nothing may be copied or
 * written into the folder of the tests, whose files are executed.
 */
export function checkWriter(trust: ScriptTrust, args: readonly ShellWord[], name: string): string | undefined {
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
