import {
  type ComparisonContext,
  checkComparisons,
  isSubmittedPath,
  leavesSubmission,
  listCalledBodies,
  readSide,
} from './shell-comparisons.ts'
import { listCommandLists } from './shell-program-output.ts'
import { isTrustedWord, quoted } from './shell-trust.ts'
import {
  calledProgram,
  commandName,
  listOperands,
  plainText,
  type ShellCommand,
  type ShellWord,
  toCall,
} from './shell-words.ts'

// A script must know which file it reads. It does not if it joins a text of the submission with one of the tests: the
// submission can contain a second document, a separator or no line at all. Nor does it if `cd` to a folder of the
// submission may have failed: relative paths then name files of the tests.

const JOINED = 'joins texts of the submission and of the tests, so that the submission can pose as both'
const STAYED = 'goes on if cd to a folder of the submission fails, and then compares the tests with themselves'

/** Returns the reason if the submission can decide what a script compares it with. */
export const checkComparedFiles = (context: ComparisonContext, commands: readonly ShellCommand[]): string | undefined =>
  checkComparisons(context, commands) ?? checkStreams(context, commands)

/** `hasLeft`: relative paths may name files outside of the submission. */
type StreamContext = ComparisonContext & { hasLeft: boolean }

/** Returns the reason if a script can mistake a text of the tests for one of the submission, or the other way round. */
function checkStreams(comparison: ComparisonContext, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands), ...listCalledBodies(commands)]
  const all = lists.flatMap(({ list }) => list)
  // A substitution does not change the folder of the script.
  const hasLeft = lists.some(
    ({ list, isCaptured }) => !isCaptured && list.some((command) => leavesSubmission(comparison, command)),
  )
  if (hasLeft && !all.some(stopsAtErrors) && all.some((command) => mayStay(comparison, command))) return STAYED
  const context = { ...comparison, hasLeft }
  const isJoining = lists.some(({ list, isCaptured }) =>
    list.some((command, at) => joinsFiles(context, list, at, isCaptured) || joinsWords(context, command, list[at + 1])),
  )
  return isJoining || appendsBoth(context, all) ? JOINED : undefined
}

/** Returns true for `set -e` and its like. */
function stopsAtErrors({ kind, words }: ShellCommand): boolean {
  const texts = toCall(words).args.map((word) => plainText(word) ?? '')
  return (
    kind === 'simple' && calledProgram(words) === 'set' && texts.some((text) => /^(?:-\w*e\w*|errexit)$/.test(text))
  )
}

/** Returns true for `cd` to a folder of the submission whose failure the script does not notice. */
function mayStay(context: ComparisonContext, command: ShellCommand): boolean {
  if (commandName(command) !== 'cd' || command.isDecisive) return false
  const path = context.resolve(toCall(command.words).args[0] ?? [])
  return path !== undefined && isSubmittedPath(context.submission, path)
}

/** Programs that read one file after the other, or line by line beside each other. A file cannot pose as an earlier one. */
const FOLLOWING = /^(?:paste|jq|[gmn]?awk)$/
/** Programs that do not tell where a file ends, or leave out a file that they cannot read. */
const MIXING = /^(?:cat|head|tail|tac|nl|sort|[ef]?grep|\w+sum)$/
/** Programs that compare their whole input. */
const COMPARING = /^(?:cmp|diff)$/

type Source = 'submission' | 'tests'

/** Returns true if a program, or the programs of a group, print both a file of the submission and one of the tests. */
function joinsFiles(context: StreamContext, list: readonly ShellCommand[], at: number, isCaptured: boolean): boolean {
  const [command, next] = [list[at] as ShellCommand, list[at + 1]]
  const isRead = (isCaptured || command.isPiped) && !COMPARING.test(next ? commandName(next) : '')
  const group = list.slice(at - (command.groupLength ?? 0), at + 1)
  const sources = group.flatMap((each) => listSources(context, each))
  const first = sources.indexOf('submission')
  if (FOLLOWING.test(commandName(command))) return first !== -1 && sources.lastIndexOf('tests') > first
  return isRead && first !== -1 && sources.includes('tests')
}

/** Options of jq whose values are no input. */
const JQ_VALUE = /^--(?:arg|argjson|slurpfile|rawfile|argfile)$/

/** Lists where the files that a program joins come from, in their order. Files of the image are left out. */
function listSources(context: StreamContext, command: ShellCommand): Source[] {
  const name = commandName(command)
  if (!FOLLOWING.test(name) && !MIXING.test(name)) return []
  const { args } = toCall(command.words)
  const texts = args.map((word) => plainText(word) ?? '')
  if (/grep$/.test(name) && !texts.some((text) => /^-\w*h|^--no-filename$/.test(text))) return []
  const isValue = (at: number): boolean => [texts[at - 1], texts[at - 2]].some((text) => JQ_VALUE.test(text ?? ''))
  const operands = listOperands(name === 'jq' ? args.filter((_, at) => !isValue(at)) : args)
  // The first operand of these is a program or a pattern.
  const files = /^(?:jq|[gmn]?awk|[ef]?grep)$/.test(name) ? operands.slice(1) : operands
  return files.flatMap((word) => findSource(context, word) ?? [])
}

function findSource(context: StreamContext, word: ShellWord): Source | undefined {
  const path = context.resolve(word)
  if (path !== undefined) return sourceOfPath(context, path)
  const { files } = readSide(context, word)
  if (files.length > 0) return files.every((file) => sourceOfPath(context, file) === 'tests') ? 'tests' : 'submission'
  // A computed path, such as one in a folder of `mktemp`, where outputs of the submission are kept.
  return word.some((part) => part.kind === 'text' && part.text.includes('/')) ? 'submission' : undefined
}

function sourceOfPath({ submission, hasLeft }: StreamContext, path: string): Source | undefined {
  if (/^\/tests(?:\/|$)/.test(path)) return 'tests'
  if (path === '-' || /^\/(?:tmp|logs)\//.test(path)) return 'submission'
  if (!/^[\w./-]+$/.test(path) || !/\/|\w\.\w/.test(path)) return undefined
  const isSubmitted = path.startsWith('/') ? isSubmittedPath(submission, path) : !hasLeft
  return isSubmitted ? 'submission' : undefined
}

/** Programs that split a text into fields, lines or documents. */
const SPLITTING = /^(?:[gmn]?awk|cut|read|sort|uniq|jq|paste)$/

/** Returns true if a text of the submission is printed in front of another one, for a program that splits them. */
function joinsWords(context: StreamContext, command: ShellCommand, next: ShellCommand | undefined): boolean {
  const name = commandName(command)
  const isSplit = (splitter: ShellCommand | undefined): boolean =>
    splitter !== undefined && SPLITTING.test(commandName(splitter))
  const { args } = toCall(command.words)
  const printed = name === 'printf' ? args.slice(1) : name === 'echo' ? args : []
  const given = command.redirects.filter(({ operator }) => operator === '<<<').flatMap(({ target }) => target)
  return (
    (command.isPiped && isSplit(next) && isFollowed(context, printed.flat())) ||
    (isSplit(command) && isFollowed(context, given))
  )
}

/** Returns true if a part that can come from the submission is followed by another one. */
function isFollowed(context: StreamContext, parts: ShellWord): boolean {
  const first = parts.findIndex((part) => !isTrustedWord(context, quoted([part])))
  return first !== -1 && parts.slice(first + 1).some((part) => part.kind !== 'text' || /\S/.test(part.text))
}

/** Returns true if a script writes files of the submission and of the tests into one file. */
function appendsBoth(context: StreamContext, all: readonly ShellCommand[]): boolean {
  const written = all.flatMap((command) =>
    command.redirects
      .filter(({ operator }) => operator.includes('>'))
      .map(({ target }) => ({
        path: context.resolve(target) ?? plainTarget(target),
        sources: listSources(context, command),
      })),
  )
  return written.some(
    ({ path, sources }) =>
      !path.startsWith('/dev/') &&
      sources.includes('submission') &&
      written.some((other) => other.path === path && other.sources.includes('tests')),
  )
}

/** Returns a name for a computed path, which is the same for each place that writes it in the same way. */
const plainTarget = (word: ShellWord): string =>
  word.map((part) => (part.kind === 'text' ? part.text : part.kind === 'variable' ? `$${part.name}` : '?')).join('')
