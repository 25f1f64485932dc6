import type { ListedCommands } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import { commandName, plainText, type ShellCommand, type ShellWord, type WordPart } from './shell-words.ts'

// A comparison that fails prints no difference, and a submission can make it fail, for example with a file that exceeds the
// memory. Only its exit status is reliable.

/** `files`: files with the output of comparisons. */
type SilenceContext = ScriptTrust & { files: ReadonlySet<string> }

/** Returns true if a script searches the output of a comparison, or tests whether it has printed nothing. */
export function decidesBySilence(trust: ScriptTrust, lists: readonly ListedCommands[]): boolean {
  const files = new Set(lists.flatMap(({ list }) => list.flatMap((command) => listOutputFiles(trust, command))))
  const context = { ...trust, files }
  return lists.some(({ list, isCaptured }) =>
    list.some(
      (command, at) => (!isCaptured && isSearchedDifference(command, list[at + 1])) || testsSilence(context, command),
    ),
  )
}

/** Programs that print differences. */
const DIFFERING = /^(?:cmp|diff|comm)$/
const SHOWING = /^(?:cat|head|tail|tee)$/

const listOutputFiles = ({ resolve }: ScriptTrust, command: ShellCommand): string[] =>
  DIFFERING.test(commandName(command))
    ? command.redirects.flatMap(({ operator, target }) => (/^&?>/.test(operator) ? (resolve(target) ?? []) : []))
    : []

const isSearchedDifference = (command: ShellCommand, next: ShellCommand | undefined): boolean =>
  command.isPiped && /^(?:cmp|diff)$/.test(commandName(command)) && !(next && SHOWING.test(commandName(next)))

/** Values that are compared with a text or a count that is missing. */
const NOTHING = /^0?$/

function testsSilence(context: SilenceContext, command: ShellCommand): boolean {
  const { kind, words } = command
  if (kind !== 'test' && !/^(?:\[|test)$/.test(commandName(command))) return false
  const texts = words.map((word) => plainText(word) ?? 'unknown')
  if (texts.some((text, at) => text === '-s' && isDifferenceFile(context, words[at + 1] ?? []))) return true
  const operands = texts.filter((text) => !/^(?:\[|\]|test|!)$/.test(text))
  const isSilent = operands.length === 1 || operands.some((text) => /^-[zn]$/.test(text) || NOTHING.test(text))
  return isSilent && words.some((word) => holdsDifference(context, word))
}

const isDifferenceFile = ({ files, resolve }: SilenceContext, word: ShellWord): boolean =>
  files.has(resolve(word) ?? '')

const DEPTH_MAX = 5

const holdsDifference = (context: SilenceContext, word: readonly WordPart[], depth = 0): boolean =>
  word.some((part) => {
    if (part.kind === 'substitution') return part.commands.some((command) => printsDifference(context, command))
    if (part.kind !== 'variable' || depth > DEPTH_MAX) return false
    return context.listValues(part.name).some((value) => holdsDifference(context, value, depth + 1))
  })

const printsDifference = (context: SilenceContext, command: ShellCommand): boolean =>
  DIFFERING.test(commandName(command)) ||
  [...command.words, ...command.redirects.map(({ target }) => target)].some((word) => isDifferenceFile(context, word))
