import {
  type ComparisonContext,
  checkComparisons,
  isSubmittedPath,
  leavesSubmission,
  listCalledBodies,
  readSide,
} from './shell-comparisons.ts'
import { listCommandLists } from './shell-program-output.ts'
import {
  calledProgram,
  commandName,
  listOperands,
  plainText,
  type ShellCommand,
  type ShellWord,
  toCall,
} from './shell-words.ts'

// A script must know which file it reads. It does not if a program joins a file of the submission with one of the tests:
// the submission can contain a second document, a separator or no line at all. Nor does it if `cd` to a folder of the
// submission may have failed: relative paths then name files of the tests.

const JOINED = 'joins files of the submission and of the tests, so that the submission can pose as both'
const STAYED = 'goes on if cd to a folder of the submission fails, and then compares the tests with themselves'

/** Returns the reason if the submission can decide what a script compares it with. */
export const checkComparedFiles = (context: ComparisonContext, commands: readonly ShellCommand[]): string | undefined =>
  checkComparisons(context, commands) ?? checkStreams(context, commands)

/** Returns the reason if a script can mistake a file of the tests for one of the submission, or the other way round. */
function checkStreams(context: ComparisonContext, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands), ...listCalledBodies(commands)]
  // A substitution does not change the folder of the script.
  const all = lists.filter(({ isCaptured }) => !isCaptured).flatMap(({ list }) => list)
  const hasLeft = all.some((command) => leavesSubmission(context, command))
  if (hasLeft && !all.some(stopsAtErrors) && all.some((command) => mayStay(context, command))) return STAYED
  const isSubmitted = (path: string): boolean =>
    path.startsWith('/') ? isSubmittedPath(context.submission, path) : !hasLeft
  const isJoining = lists.some(({ list, isCaptured }) =>
    list.some((command, at) => {
      const files = listStreamFiles(context, command)
      if (FOLLOWING.test(commandName(command)))
        return files.some((path, index) => isSubmitted(path) && files.slice(index + 1).some((next) => isTest(next)))
      const isRead = (isCaptured || command.isPiped) && !COMPARING.test(commandName(list[at + 1] ?? command))
      return isRead && files.some(isSubmitted) && files.some(isTest)
    }),
  )
  return isJoining ? JOINED : undefined
}

const isTest = (path: string): boolean => /^\/tests(?:\/|$)/.test(path)

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
/** Options of jq whose values are no input. */
const JQ_VALUE = /^--(?:arg|argjson|slurpfile|rawfile|argfile)$/

/** Lists the files that a program joins, in their order. */
function listStreamFiles(context: ComparisonContext, command: ShellCommand): string[] {
  const name = commandName(command)
  if (!FOLLOWING.test(name) && !MIXING.test(name)) return []
  const { args } = toCall(command.words)
  const texts = args.map((word) => plainText(word) ?? '')
  if (/grep$/.test(name) && !texts.some((text) => /^-\w*h|^--no-filename$/.test(text))) return []
  const isValue = (at: number): boolean => [texts[at - 1], texts[at - 2]].some((text) => JQ_VALUE.test(text ?? ''))
  const operands = listOperands(name === 'jq' ? args.filter((_, at) => !isValue(at)) : args)
  const files = /^(?:paste|cat|head|tail|tac|nl|sort|\w+sum)$/.test(name) ? operands : operands.slice(1)
  return files.flatMap((word) => toPaths(context, word))
}

function toPaths(context: ComparisonContext, word: ShellWord): string[] {
  const path = context.resolve(word)
  if (path === undefined) return readSide(context, word).files
  return /^[\w./-]+$/.test(path) && /\/|\w\.\w/.test(path) ? [path] : []
}
