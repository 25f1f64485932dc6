import { type ListedCommands, listCommandLists, VERIFIER_PROGRAM } from './shell-program-output.ts'
import { acceptsFailure } from './shell-status.ts'
import type { ScriptTrust } from './shell-trust.ts'
import {
  calledProgram,
  commandName,
  LENGTH,
  listOperands,
  plainText,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

/** `submission`: paths of the agent's files, or an empty list if they are not known. */
export type ComparisonContext = ScriptTrust & { submission: readonly string[] }

const COMPARED = 'compares files of the submission with each other'
const SELF_COMPARED = 'compares the submission only with itself'
const FAILED = 'takes an exit status of a comparison that may have failed for equality'
const SILENT = 'takes missing output of a comparison, which may have failed, for equality'

/**
 * One side of a comparison. `files`: files from which its text comes. `isCount`: it is a count or a size. `isSize`: it is
 * a size, which says nothing about the content. `isUnknown`: it can come from any file.
 */
type ComparedSide = { files: string[]; isCount?: boolean; isSize?: boolean; isUnknown?: boolean }

/**
 * Returns the reason if a script compares two files of the submission for equality, or the submission only with itself: an
 * empty or constant submission would pass. Comparing parts or counts of one file with each other is only sound if another
 * test compares the same file with a value of the tests.
 */
export function checkComparisons(context: ComparisonContext, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands), ...listCalledBodies(commands)]
  if (decidesBySilence(context, lists)) return SILENT
  if (acceptsFailure(context, lists)) return FAILED
  const all = lists.flatMap(({ list }) => list)
  const isRelativeSubmitted = !all.some((command) => leavesSubmission(context, command))
  const isSubmitted = ({ files }: ComparedSide): boolean =>
    files.length > 0 &&
    files.every((path) => (path.startsWith('/') ? isSubmittedPath(context.submission, path) : isRelativeSubmitted))
  const comparisons = lists.flatMap(({ list, isCaptured }) => [
    ...list.flatMap((command, at) => readComparisons(context, list, command, at)),
    ...(isCaptured ? [] : list.flatMap((command, at) => readSearch(context, list, command, at))),
  ])
  const selfComparisons = comparisons.filter((sides) => sides.every(isSubmitted))
  if (selfComparisons.some(comparesTwoFiles)) return COMPARED
  const isCheckedElsewhere = (sides: readonly ComparedSide[]): boolean =>
    comparisons.some((other) => comparesWithTests(other, isSubmitted) && sharesFile(other, sides))
  const isUncertain = comparisons.flat().some((side) => side.isUnknown) || all.some(mayCompare)
  return isUncertain || selfComparisons.every(isCheckedElsewhere) ? undefined : SELF_COMPARED
}

/** Returns true if two different files are compared by their content. */
const comparesTwoFiles = ([one, other, ...others]: readonly ComparedSide[]): boolean =>
  [one, other, ...others].every((side) => !side?.isCount) && !one?.files.some((file) => other?.files.includes(file))

const sharesFile = (one: readonly ComparedSide[], other: readonly ComparedSide[]): boolean =>
  one.some(({ files }) => files.some((file) => other.some((side) => side.files.includes(file))))

/** Returns true if content of the submission is compared with a value that does not come from it. */
const comparesWithTests = (sides: readonly ComparedSide[], isSubmitted: (side: ComparedSide) => boolean): boolean =>
  sides.some((side) => isSubmitted(side) && !side.isSize) && !sides.every(isSubmitted)

/** Returns true for commands that can compare the submission in ways that this file does not follow. */
function mayCompare({ kind, words }: ShellCommand): boolean {
  const texts = words.map((word) => plainText(word) ?? '')
  if (kind === 'pattern') return texts.some((text) => /[^*?]/.test(text))
  const name = kind === 'simple' ? calledProgram(words) : ''
  return VERIFIER_PROGRAM.test(name) || (/sum$/.test(name) && texts.some((text) => /^(?:-\w*c|--c)/.test(text)))
}

/** Bounds the time of a check. */
const CALLS_MAX = 200

/** Lists the bodies of functions for each of their calls, with the arguments in place of `$1` to `$9`. */
export function listCalledBodies(commands: readonly ShellCommand[]): ListedCommands[] {
  const all = [...listCommandLists(commands)].flatMap(({ list }) => list)
  const bodies = new Map(all.flatMap(({ kind, text, body }) => (kind === 'function' ? [[text, body] as const] : [])))
  return all
    .flatMap(({ kind, words: [name = [], ...args] }) => {
      const body = kind === 'simple' ? bodies.get(plainText(name) ?? '') : undefined
      return body ? [{ body, args }] : []
    })
    .slice(0, CALLS_MAX)
    .flatMap(({ body, args }) => [...listCommandLists(body.map((each) => withArguments(each, args)))])
}

const withArguments = (command: ShellCommand, args: readonly ShellWord[]): ShellCommand => ({
  ...command,
  words: command.words.map((word) => replaceParameters(word, args)),
  redirects: command.redirects.map((redirect) => ({ ...redirect, target: replaceParameters(redirect.target, args) })),
})

const replaceParameters = (word: ShellWord, args: readonly ShellWord[]): ShellWord =>
  word.flatMap((part) => {
    if (part.kind === 'substitution')
      return [{ ...part, commands: part.commands.map((command) => withArguments(command, args)) }]
    const isArgument = part.kind === 'variable' && /^[1-9]$/.test(part.name) && part.operator === ''
    return isArgument ? (args[Number(part.name) - 1] ?? []) : [part]
  })

export const isSubmittedPath = (submission: readonly string[], path: string): boolean =>
  submission.length === 0
    ? !/^\/(?:tests|tmp|logs|usr|etc|dev|proc|sys|bin|lib|opt)(?:\/|$)/.test(path)
    : submission.some((folder) => path === folder || path.startsWith(`${folder}/`))

/** Returns true for `cd` to another folder than the submission. */
export function leavesSubmission(context: ComparisonContext, { kind, words }: ShellCommand): boolean {
  const { args } = toCall(words)
  if (kind !== 'simple' || calledProgram(words) !== 'cd') return false
  const path = context.resolve(args[0] ?? [])
  return path === undefined || (path.startsWith('/') && !isSubmittedPath(context.submission, path))
}

const EQUALITY = /^(?:==?|!=|-eq|-ne)$/
const COMPARING = /^(?:cmp|diff|comm|join|paste)$/
const SEARCHING = /^[ef]?grep$/
/** Programs of awk and options of jq that compare one file with another. */
const JOINING: Partial<Record<string, RegExp>> = {
  awk: /\bNR ?== ?FNR\b|\bFNR ?== ?NR\b|\bgetline\b/,
  jq: /^(?:-\w*s\w*|--slurp|--slurpfile|--rawfile|--argfile)$|\binputs?\b/,
}

/** Returns the comparisons of a command, each with its sides. */
function readComparisons(
  context: ComparisonContext,
  list: readonly ShellCommand[],
  command: ShellCommand,
  at: number,
): ComparedSide[][] {
  const { kind, words, text } = command
  if (kind === 'arithmetic') return readEquations(context, text)
  const name = kind === 'simple' ? calledProgram(words) : ''
  if (kind === 'test' || name === '[' || name === 'test') return readConditions(context, words)
  const { args } = toCall(words)
  const input = listInputFiles(context, list, command, at)
  const language = name.replace(/^[gmn]awk$/, 'awk')
  const joining = JOINING[language]
  if (joining) {
    const joined = readJoined(context, args, joining)
    return joined.length > 1 ? [joined] : readProgram(context, language, args, input)
  }
  if (!COMPARING.test(name)) return []
  const sides = listOperands(args).map((word): ComparedSide => {
    if (plainText(word) === '-') return { files: input }
    const path = context.resolve(word)
    return path === undefined ? readSide(context, word) : { files: [path] }
  })
  return sides.length > 1 ? [sides] : []
}

/** Returns the comparison of a search, which compares its input with a pattern of the script. */
function readSearch(
  context: ComparisonContext,
  list: readonly ShellCommand[],
  command: ShellCommand,
  at: number,
): ComparedSide[][] {
  if (command.kind !== 'simple' || !SEARCHING.test(calledProgram(command.words))) return []
  const paths = listPaths(context, toCall(command.words).args)
  return [[{ files: [...paths, ...listInputFiles(context, list, command, at)] }, { files: [] }]]
}

/** Lists the files that a command reads as its input. */
const listInputFiles = (
  context: ComparisonContext,
  list: readonly ShellCommand[],
  { redirects }: ShellCommand,
  at: number,
): string[] => [...readPrinted(context, pipedInto(list, at)).files, ...listInputs(context, redirects)]

/** An empty text or zero, which says nothing about the content that is compared with it. */
const EMPTY_OR_ZERO = /^0?$/

function readConditions(context: ComparisonContext, words: readonly ShellWord[]): ComparedSide[][] {
  return words.flatMap((word, at) => {
    const sides = [words[at - 1] ?? [], words[at + 1] ?? []]
    const isTrivial = sides.some((side) => EMPTY_OR_ZERO.test(plainText(side) ?? 'unknown'))
    return EQUALITY.test(plainText(word) ?? '') && !isTrivial ? [sides.map((side) => readSide(context, side))] : []
  })
}

/** Reads the equations between variables in arithmetic. */
const readEquations = (context: ComparisonContext, text: string): ComparedSide[][] =>
  [...text.matchAll(/\$?(\w+) ?[=!]= ?\$?(\w+)/g)].map(([, ...names]) =>
    names.map((name) => readSide(context, [{ kind: 'variable', name, operator: '', nested: [], isQuoted: true }])),
  )

/** Fields of the input in programs of awk and jq. */
const FIELD: Partial<Record<string, RegExp>> = { awk: /\$(?:\w|\()/, jq: /\.\w|\.\[|\b(?:length|add)\b/ }

/** Reads the equations between fields of one input, and between fields and other values, in a program of awk or jq. */
function readProgram(
  context: ComparisonContext,
  language: string,
  args: readonly ShellWord[],
  input: readonly string[],
): ComparedSide[][] {
  const [program = ''] = listOperands(args).map((word) => plainText(word) ?? '')
  const files = [...listPaths(context, args), ...input].filter((path) => path !== program)
  const isField = (side: string): boolean => FIELD[language]?.test(side) === true
  const code = program.replaceAll(/(?<=^|\s)#.*$/gm, '')
  return code.split(/\band\b|\bor\b|&&|\|\||[;{}]|\bif\b/).flatMap((condition) => {
    // The pattern after `~` is part of the program and no content of the submission.
    const [left = '', right] = condition.replace(/~.*/, '== ""').split(/[=!]=/, 2)
    if (right === undefined || !(isField(left) || isField(right))) return []
    return [[left, right].map((side) => ({ files: isField(side) ? files : [] }))]
  })
}

/** Returns the files that awk or jq compare with each other. */
function readJoined(context: ComparisonContext, args: readonly ShellWord[], joining: RegExp): ComparedSide[] {
  if (!args.some((word) => joining.test(plainText(word) ?? ''))) return []
  return listPaths(context, args)
    .filter((path) => /^\/[\w./-]+$/.test(path))
    .map((path) => ({ files: [path] }))
}

/** Returns the commands whose output is the input of a command. */
function pipedInto(list: readonly ShellCommand[], at: number): ShellCommand[] {
  let start = at
  while (list[start - 1]?.isPiped) start -= 1
  return list.slice(start, at)
}

const listInputs = (context: ComparisonContext, redirects: ShellCommand['redirects']): string[] =>
  redirects.filter(({ operator }) => operator === '<').flatMap(({ target }) => context.resolve(target) ?? [])

const DEPTH_MAX = 5

/** Returns the files from which a text comes. */
export const readSide = (context: ComparisonContext, word: readonly WordPart[], depth = 0): ComparedSide =>
  joinSides(
    word.map((part) => {
      if (part.kind === 'substitution') return readPrinted(context, part.commands)
      return part.kind === 'variable' && depth <= DEPTH_MAX ? readVariable(context, part, depth) : { files: [] }
    }),
  )

function readVariable(
  context: ComparisonContext,
  { name, operator }: Extract<WordPart, { kind: 'variable' }>,
  depth: number,
): ComparedSide {
  const isLength = operator === LENGTH
  if (operator !== '' && !isLength) return { files: [] }
  const side = joinSides(context.listValues(name).map((value) => readSide(context, value, depth + 1)))
  if (side.files.length === 0) return { files: [], isUnknown: context.untrusted.has(name) }
  return isLength ? { ...side, isCount: true, isSize: true } : side
}

const joinSides = (sides: readonly ComparedSide[]): ComparedSide => ({
  files: sides.flatMap(({ files }) => files),
  isCount: sides.some(({ isCount }) => isCount),
  isSize: sides.some(({ isSize }) => isSize),
  isUnknown: sides.some(({ isUnknown }) => isUnknown),
})

/** Programs that print a text or a checksum of the files that they are given. */
const PRINTING = /^(?:cat|head|tail|sort|uniq|rev|tac|cut|jq|awk|sed|[ef]?grep|\w+sum|base64|od)$/
/** Programs that print no more than a size. */
const SIZING = /^(?:wc|stat|du|ls)$/

/** Returns the files from which commands print, and whether they print a count or a size of them. */
function readPrinted(context: ComparisonContext, commands: readonly ShellCommand[]): ComparedSide {
  // A function may print a count instead of the content of a file.
  const isFunction = (name: string): boolean => context.functions.has(name)
  const isSearching = commands.some(
    ({ words }) => SEARCHING.test(calledProgram(words)) || isFunction(calledProgram(words)),
  )
  const isSizing = commands.some(({ words }) => SIZING.test(calledProgram(words)))
  const files = commands.flatMap(({ kind, words, redirects }) => {
    const name = kind === 'simple' ? calledProgram(words) : ''
    const isReading = PRINTING.test(name) || SIZING.test(name) || isFunction(name)
    return [...(isReading ? listPaths(context, toCall(words).args) : []), ...listInputs(context, redirects)]
  })
  return { files, isCount: isSizing || isSearching, isSize: isSizing && !isSearching }
}

/** Lists the operands that look like paths. */
const listPaths = (context: ComparisonContext, args: readonly ShellWord[]): string[] =>
  listOperands(args)
    .flatMap((word) => context.resolve(word) ?? [])
    .filter((text) => /^[\w./-]+$/.test(text) && /\/|\w\.\w/.test(text))

/** `files`: files with the output of comparisons. */
type SilenceContext = ScriptTrust & { files: ReadonlySet<string> }

/**
 * Returns true if a script searches the output of a comparison, or tests whether it has printed nothing. A comparison that
 * fails prints no difference either, and a submission can make it fail, for example with a file that exceeds the memory.
 * Only its exit status is reliable.
 */
function decidesBySilence(trust: ScriptTrust, lists: readonly ListedCommands[]): boolean {
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

function testsSilence(context: SilenceContext, command: ShellCommand): boolean {
  const { kind, words } = command
  if (kind !== 'test' && !/^(?:\[|test)$/.test(commandName(command))) return false
  const texts = words.map((word) => plainText(word) ?? 'unknown')
  if (texts.some((text, at) => text === '-s' && isDifferenceFile(context, words[at + 1] ?? []))) return true
  const operands = texts.filter((text) => !/^(?:\[|\]|test|!)$/.test(text))
  const isSilent = operands.length === 1 || operands.some((text) => /^-[zn]$/.test(text) || EMPTY_OR_ZERO.test(text))
  return isSilent && words.some((word) => holdsDifference(context, word))
}

const isDifferenceFile = ({ files, resolve }: SilenceContext, word: ShellWord): boolean =>
  files.has(resolve(word) ?? '')

const holdsDifference = (context: SilenceContext, word: readonly WordPart[], depth = 0): boolean =>
  word.some((part) => {
    if (part.kind === 'substitution') return part.commands.some((command) => printsDifference(context, command))
    if (part.kind !== 'variable' || depth > DEPTH_MAX) return false
    return context.listValues(part.name).some((value) => holdsDifference(context, value, depth + 1))
  })

const printsDifference = (context: SilenceContext, command: ShellCommand): boolean =>
  DIFFERING.test(commandName(command)) ||
  [...command.words, ...command.redirects.map(({ target }) => target)].some((word) => isDifferenceFile(context, word))
