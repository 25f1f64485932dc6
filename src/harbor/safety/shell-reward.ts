import { VERIFIER_PROGRAM } from './shell-program-output.ts'
import {
  isTrustedFunction,
  isTrustedWord,
  printsTrusted,
  quoted,
  type ScriptTrust,
  type TrustRule,
} from './shell-trust.ts'
import { listOperands, plainText, programName, type ShellCommand, type ShellWord, toCall } from './shell-words.ts'

/** Trusts values that the submission cannot choose: neither texts nor numbers of it. */
export const VALUE_RULE: TrustRule = {
  trustsNumbers: false,
  hasTrustedOutput: (trust, commands) => readOutputs(trust, commands).untrustedBefore.at(-1) === 0,
}

const UNTRUSTED_REWARD = 'writes a reward that the submission can choose'

/**
 * Checks that no command writes a value of the submission into a file of the reward, which would let the submission decide
 * it. `trust` follows VALUE_RULE.
 */
export function checkReward(trust: ScriptTrust, commands: readonly ShellCommand[]): string | undefined {
  const { isTrusted, isInputTrusted } = readOutputs(trust, commands)
  const isUntrusted = commands.some((command, at) => {
    const targets = command.redirects.filter(
      ({ operator, target }) => operator.includes('>') && isReward(trust, target),
    )
    // Output that goes through another descriptor is not followed.
    const isFollowed = targets.every(({ descriptor }) => /^1?$/.test(descriptor)) && !isExec(command)
    if (targets.length > 0 && !(isFollowed && isTrusted[at])) return true
    return command.kind === 'simple' && fillsReward(trust, command, isInputTrusted[at] ?? false)
  })
  return isUntrusted ? UNTRUSTED_REWARD : undefined
}

/**
 * Determines for each command whether it prints, and reads as input, nothing of the submission. `untrustedBefore[n]` is
 * the number of commands before the n-th that print something of it to the output of the list.
 */
function readOutputs(trust: ScriptTrust, commands: readonly ShellCommand[]) {
  const outputs = { isTrusted: [] as boolean[], isInputTrusted: [] as boolean[], untrustedBefore: [0] }
  for (const [at, command] of commands.entries()) {
    const { groupLength, isPiped } = command
    const count = outputs.untrustedBefore[at] ?? 0
    const isPipeTrusted = commands[at - 1]?.isPiped === true && outputs.isTrusted[at - 1] === true
    const isInputTrusted = hasTrustedInput(trust, command, isPipeTrusted)
    const isTrusted =
      groupLength === undefined
        ? printsTrustedValues(trust, command, isInputTrusted)
        : outputs.untrustedBefore[at - groupLength] === count
    outputs.isInputTrusted.push(isInputTrusted)
    outputs.isTrusted.push(isTrusted)
    outputs.untrustedBefore.push(isTrusted || isPiped || isSentAway(trust, command) ? count : count + 1)
  }
  return outputs
}

/** Returns for each command whether its input comes from the script or from files of the tests. */
export const listTrustedInputs = (trust: ScriptTrust, commands: readonly ShellCommand[]): boolean[] =>
  readOutputs(trust, commands).isInputTrusted

/** Returns true if the input of a command is a here-document without values of the submission, a file of the tests, or such a pipe. */
function hasTrustedInput(trust: ScriptTrust, { redirects }: ShellCommand, isPipeTrusted: boolean): boolean {
  const inputs = redirects.filter(({ operator }) => operator.startsWith('<'))
  if (inputs.length === 0) return isPipeTrusted
  return inputs.every(({ operator, target }) =>
    operator.startsWith('<<') ? isTrustedWord(trust, quoted(target)) : isTestFile(target),
  )
}

const isTestFile = (word: ShellWord): boolean => /^\/tests\/(?!.*\.\.)/.test(plainText(word) ?? '')

/** Programs that print what is in their input if they have no file as an operand. */
const FILTERS = new Set('cat tee tr head tail wc cut sort uniq rev tac grep sed'.split(' '))
/** Programs whose first operand is a pattern or a program. */
const PROGRAM_FIRST = new Set(['grep', 'sed'])

function printsTrustedValues(trust: ScriptTrust, shellCommand: ShellCommand, isInputTrusted: boolean): boolean {
  const { kind, words, redirects } = shellCommand
  if (kind !== 'simple') return true
  const { command, args } = toCall(words)
  if (command === undefined) return words.length > 0 || !redirects.some(({ operator }) => operator.startsWith('<'))
  const name = programName(plainText(command) ?? '')
  if (trust.functions.has(name)) return isTrustedFunction(trust, name)
  // The output of a test program is the verifier's, whatever it reads.
  if (VERIFIER_PROGRAM.test(name) || printsTrusted(trust, shellCommand)) return true
  return FILTERS.has(name)
    ? args.every((word) => isTrustedWord(trust, word)) && filtersTrustedInput(name, args, isInputTrusted)
    : isCalculation(trust, name, args)
}

function filtersTrustedInput(name: string, args: readonly ShellWord[], isInputTrusted: boolean): boolean {
  if (name === 'tr' || name === 'tee') return isInputTrusted
  const files = listOperands(args).slice(PROGRAM_FIRST.has(name) ? 1 : 0)
  const named = files.filter((word) => !/^\d+$/.test(plainText(word) ?? ''))
  return named.length > 0 ? named.every(isTestFile) : isInputTrusted
}

const JQ_OPTION = /^-(?:[cnrj]+|-(?:null-input|compact-output|raw-output|arg|argjson))$/

/** Returns true if a program has only trusted values and no input: awk with nothing but a `BEGIN` block, jq with `-n`. */
function isCalculation(trust: ScriptTrust, name: string, args: readonly ShellWord[]): boolean {
  const texts = args.map((word) => plainText(word) ?? '')
  const isAwk = /^[gmn]?awk$/.test(name)
  if (isAwk && texts.some(printsConstants)) return true
  if (!args.every((word) => isTrustedWord(trust, word))) return false
  if (isAwk) return texts.some((text) => /^\s*BEGIN\s*\{[^{}]*\}\s*$/.test(text))
  const options = texts.filter((text) => text.startsWith('-'))
  const hasNoInput = options.some((option) => /^-\w*n|^--null-input$/.test(option)) && !/\binput/.test(texts.join('\n'))
  return name === 'jq' && hasNoInput && options.every((option) => JQ_OPTION.test(option))
}

const CONSTANT_PRINT = /\bprint\s+(?:[^?:,]*\?\s*"?-?[\d.]+"?\s*:\s*)?"?-?[\d.]+"?\s*$/

/** Returns true for a program of awk that prints nothing but numbers that are written in it, chosen by a condition. */
function printsConstants(program: string): boolean {
  const parts = program.split(/[{}]/)
  const isFlat = /^(?:\{\})+$/.test(program.replaceAll(/[^{}]/g, '')) && parts.at(-1)?.trim() === ''
  const patterns = parts.filter((_, at) => at % 2 === 0)
  const actions = parts.filter((_, at) => at % 2 === 1)
  // A pattern without an action prints lines.
  if (!isFlat || patterns.some((pattern) => /[\n;]/.test(pattern.trim()))) return false
  const prints = actions.flatMap((action) => action.split(/[;\n]/)).filter((statement) => statement.includes('print'))
  return prints.every((statement) => statement.length < STATEMENT_LENGTH_MAX && CONSTANT_PRINT.test(statement))
}

const STATEMENT_LENGTH_MAX = 500

/** Returns true if the output of a command goes to a file. */
const isSentAway = (trust: ScriptTrust, { redirects, groupLength }: ShellCommand): boolean =>
  groupLength === undefined &&
  redirects.some(
    ({ descriptor, operator, target }) =>
      /^1?$/.test(descriptor) &&
      /^(?:>>?|>\||&>>?)$/.test(operator) &&
      /^\/(?:logs|tmp|dev\/null$)/.test(trust.resolve(target) ?? ''),
  )

/** `exec` with nothing but redirects sends the output of all later commands to a file. */
function isExec({ words }: ShellCommand): boolean {
  const { command = [], args } = toCall(words)
  return plainText(command) === 'exec' && args.length === 0
}

const REWARD = /^\/logs\/verifier\/reward\.(?:txt|json)$/

/** Returns true if a path is, or may be, a file of the reward. */
function isReward(trust: ScriptTrust, word: ShellWord): boolean {
  const path = trust.resolve(word)
  if (path !== undefined) return REWARD.test(normalize(path))
  const end = word.findIndex((part) => trust.resolve([part]) === undefined)
  return !/^\/(?:tmp|logs\/(?!verifier\/)\w+)\//.test(trust.resolve(word.slice(0, end)) ?? '')
}

const normalize = (path: string): string =>
  `/${path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')}`

/** Returns true if `tee`, `cp` or `mv` writes a reward that does not come from the script or a file of the tests. */
function fillsReward(trust: ScriptTrust, { words }: ShellCommand, isInputTrusted: boolean): boolean {
  const { command = [], args } = toCall(words)
  const name = programName(plainText(command) ?? '')
  const operands = listOperands(args)
  if (name === 'tee') return !isInputTrusted && operands.some((word) => isReward(trust, word))
  if (name !== 'cp' && name !== 'mv') return false
  const [target = [], ...sources] = operands.toReversed()
  return sources.some((source) => !isTestFile(source) && mayBecomeReward(trust, source, target))
}

/** Returns true if a file or folder that is copied may be the reward or contain it. */
function mayBecomeReward(trust: ScriptTrust, source: ShellWord, target: ShellWord): boolean {
  const path = trust.resolve(target)
  if (path === undefined || isReward(trust, target)) return isReward(trust, target)
  const name = trust
    .resolve(source)
    ?.split('/')
    .findLast((part) => part !== '')
  const isVerifierFolder = /^\/logs(?:\/verifier)?$/.test(normalize(path))
  return isVerifierFolder && (name === undefined || /^(?:reward\.(?:txt|json)|verifier|\.+)$/.test(name))
}
