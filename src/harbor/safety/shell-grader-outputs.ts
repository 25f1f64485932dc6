import type { ListedCommands } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import {
  commandName,
  listOperands,
  plainText,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

/** Bounds how far functions and values of variables are followed. */
const DEPTH_MAX = 5

/** Returns the reason if a grader decides by something that a program of the submission can produce without the work. */
export function checkSubmittedOutputs(
  trust: ScriptTrust,
  lists: readonly ListedCommands[],
  runsSubmission: (command: ShellCommand) => boolean,
): string | undefined {
  if (tellsInput(trust, lists, runsSubmission))
    return 'tells a program of the submission the name of its input, and looks only at its exit status'
  return comparesOutputs(
    trust,
    lists.map(({ list }) => list),
    runsSubmission,
  )
    ? 'compares outputs of programs of the submission with each other'
    : undefined
}

/**
 * Returns true if a program of the submission gets a file of the tests as its input and its output is not kept. The program
 * can read the name of that file in /proc, and a name such as `bad.json` may tell the exit status that is expected.
 */
function tellsInput(
  { resolve, functions }: ScriptTrust,
  lists: readonly ListedCommands[],
  runsSubmission: (command: ShellCommand) => boolean,
): boolean {
  const bodies = new Set(functions.values())
  const isKept = ({ redirects }: ShellCommand): boolean =>
    redirects.some(({ operator, target }) => operator.includes('>') && isKeptIn(resolve(target)))
  // A computed name, such as that of a loop over files, may be one of the tests.
  const isNamed = (word: ShellWord): boolean =>
    word[0]?.kind !== 'substitution' && /^(?:$|\/tests\/)/.test(resolve(word) ?? resolve(word.slice(0, 1)) ?? '')
  const isTelling = (list: readonly ShellCommand[], depth = 0): boolean =>
    list.some((command, at) => {
      const group = list.slice(at + 1).find(({ groupLength = 0 }, after) => groupLength > after)
      if (!runsSubmission(command) || command.isPiped || isKept(command) || (group && isKept(group))) return false
      const body = functions.get(commandName(command))
      return (
        command.redirects.some(({ operator, target }) => operator === '<' && isNamed(target)) ||
        (body !== undefined && depth < DEPTH_MAX && isTelling(body, depth + 1))
      )
    })
  // Whether the output of a function is kept is decided where it is called.
  return lists.some(({ list, isCaptured }) => !isCaptured && !bodies.has(list) && isTelling(list))
}

/** Returns true unless a path is that of a device or a descriptor. */
const isKeptIn = (path = '/'): boolean => !/^\/dev\/|^[\d-]*$/.test(path)

const EQUALITY = /^(?:==?|!=|-eq|-ne)$/
/**
 * Returns true if two outputs of programs of the submission are compared. The first of them can leave a process behind that
 * ends the second one, so that both are empty, even if the second one is no program of the submission.
 */
function comparesOutputs(
  { resolve, listValues }: ScriptTrust,
  lists: readonly (readonly ShellCommand[])[],
  runsSubmission: (command: ShellCommand) => boolean,
): boolean {
  const all = lists.flat()
  const keyOf = (word: ShellWord): string => resolve(word) ?? JSON.stringify(word)
  const listTargets = (command: ShellCommand): string[] =>
    command.redirects.filter(({ operator }) => operator.includes('>')).map(({ target }) => keyOf(target))
  const others = new Set(all.filter((command) => !runsSubmission(command)).flatMap(listTargets))
  const outputs = new Set(
    all
      .filter(runsSubmission)
      .flatMap(listTargets)
      .filter((key) => !others.has(key)),
  )
  const isOutput = (word: ShellWord, depth = 0): boolean => {
    if (outputs.has(keyOf(word))) return true
    const parts = word.filter(({ kind }) => kind === 'substitution' || kind === 'variable')
    return parts.length > 0 && parts.every((part) => isOutputPart(part, depth))
  }
  const isOutputPart = (part: WordPart, depth: number): boolean => {
    if (part.kind === 'substitution')
      return part.commands.some((each) => runsSubmission(each) || listReadWords(each).some((word) => isOutput(word)))
    const values = part.kind === 'variable' && depth < DEPTH_MAX ? listValues(part.name) : []
    return values.length > 0 && values.every((value) => isOutput(value, depth + 1))
  }
  return all.some((command) => {
    const { kind, words } = command
    const name = commandName(command)
    if (/^(?:cmp|diff|comm)$/.test(name)) return listReadWords(command).filter((word) => isOutput(word)).length > 1
    if (kind !== 'test' && !/^(?:\[|test)$/.test(name)) return false
    const isEquation = (at: number): boolean => EQUALITY.test(plainText(words[at] ?? []) ?? '')
    return words.some(
      (_, at) => isEquation(at) && [words[at - 1], words[at + 1]].every((side) => side && isOutput(side)),
    )
  })
}

/** Lists the words that may name what a command reads. */
const listReadWords = (command: ShellCommand): ShellWord[] => [
  ...listOperands(toCall(command.words).args),
  ...command.redirects.filter(({ operator }) => operator === '<').map(({ target }) => target),
]
