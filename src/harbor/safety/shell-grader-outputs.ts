import type { ListedCommands } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import {
  commandName,
  listOperands,
  MKTEMP_PATH,
  plainText,
  type Redirect,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

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
 * Returns true if programs of the submission get several files of the tests as input and their output is not kept. A program
 * can read the name of its input in /proc, and a name such as `bad.json` may tell the exit status that is expected.
 */
function tellsInput(
  { resolve, functions }: ScriptTrust,
  lists: readonly ListedCommands[],
  runsSubmission: (command: ShellCommand) => boolean,
): boolean {
  const bodies = new Set(functions.values())
  const isKept = ({ isPiped, redirects }: ShellCommand): boolean =>
    isPiped || redirects.some((redirect) => writesOutput(redirect) && isKeptIn(resolve(redirect.target)))
  // The name of a file that is computed, as in a loop over files, counts as several names.
  const listNamed = (word: ShellWord): (string | undefined)[] => {
    const start = word[0]?.kind === 'substitution' ? '-' : (resolve(word) ?? resolve(word.slice(0, 1)) ?? '')
    return /^(?:$|\/tests\/)/.test(start) ? [resolve(word)] : []
  }
  const known = new Map<readonly ShellCommand[], (string | undefined)[]>()
  const listTold = (list: readonly ShellCommand[]): (string | undefined)[] => {
    const stored = known.get(list)
    if (stored !== undefined) return stored
    known.set(list, []) // for functions that call themselves
    const told = list.flatMap((command, at) => {
      if (!runsSubmission(command) || isKept(command)) return []
      const groups = list.slice(at + 1).filter(({ groupLength = 0 }, after) => groupLength > after)
      if (groups.some(isKept)) return []
      const inputs = command.redirects.filter(({ operator }) => operator === '<')
      return [
        ...inputs.flatMap(({ target }) => listNamed(target)),
        ...listTold(functions.get(commandName(command)) ?? []),
      ]
    })
    const distinct = [...new Set(told)]
    known.set(list, distinct)
    return distinct
  }
  // The body of a function is read where it is called, because the call may keep its output.
  const told = new Set(lists.flatMap(({ list, isCaptured }) => (isCaptured || bodies.has(list) ? [] : listTold(list))))
  return told.has(undefined) || told.size > 1
}

/** Returns true if a redirect is that of the output, and not only of the errors. */
const writesOutput = ({ descriptor, operator }: Redirect): boolean => operator.includes('>') && /^1?$/.test(descriptor)

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
  const keyOf = (word: ShellWord): string => {
    const path = resolve(word)
    // All temporary files resolve to the same path.
    return path === undefined || path.startsWith(MKTEMP_PATH) ? describeUnquoted(word) : path
  }
  const listTargets = (command: ShellCommand): string[] =>
    command.redirects.filter(writesOutput).map(({ target }) => keyOf(target))
  const others = new Set(all.filter((command) => !runsSubmission(command)).flatMap(listTargets))
  const outputs = new Set(
    all
      .filter(runsSubmission)
      .flatMap(listTargets)
      .filter((key) => !others.has(key)),
  )
  const isOutput = (word: ShellWord): boolean => {
    if (outputs.has(keyOf(word))) return true
    const parts = word.filter(({ kind }) => kind === 'substitution' || kind === 'variable')
    return parts.length > 0 && parts.every(isOutputPart)
  }
  const isOutputPart = (part: WordPart): boolean => {
    if (part.kind === 'substitution')
      return part.commands.some((each) => runsSubmission(each) || listReadWords(each).some(isOutput))
    return part.kind === 'variable' && isOutputVariable(part.name)
  }
  const known = new Map<string, boolean>()
  const isOutputVariable = (name: string): boolean => {
    const stored = known.get(name)
    if (stored !== undefined) return stored
    known.set(name, true) // A value that is made of the variable itself does not count.
    const values = listValues(name)
    const result = values.length > 0 && values.every(isOutput)
    known.set(name, result)
    return result
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

/** Describes a word, with or without quotes around its parts. */
const describeUnquoted = (word: ShellWord): string =>
  JSON.stringify(word, (key, value: unknown) => (key === 'isQuoted' ? undefined : value))

/** Lists the words that may name what a command reads. */
const listReadWords = (command: ShellCommand): ShellWord[] => [
  ...listOperands(toCall(command.words).args),
  ...command.redirects.filter(({ operator }) => operator === '<').map(({ target }) => target),
]
