import { programName, toCall } from './shell-calls.ts'
import { listCommandLists } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import { plainText, type ShellCommand, type ShellWord, type WordPart } from './shell-words.ts'

// A test that compares two files of the submission passes if both are empty.

/** `submission`: paths of the candidate's files. Empty: they are not known. */
type ComparisonContext = ScriptTrust & { submission: readonly string[] }

const REASON = 'compares files of the submission with each other'

/** Returns the reason if a script compares two files of the submission, or their texts, for equality. */
export function checkComparisons(context: ComparisonContext, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands), ...listCalledBodies(commands)]
  const isRelativeSubmitted = !lists.some(({ list }) => list.some((command) => leavesSubmission(context, command)))
  const isSubmitted = (path: string): boolean =>
    path.startsWith('/') ? isSubmittedPath(context.submission, path) : isRelativeSubmitted
  const isFound = lists.some(({ list }) =>
    list.some((command, at) => {
      const sides = readSides(context, list, command, at)
      const areSubmitted = sides.every((files) => files.length > 0 && files.every(isSubmitted))
      return sides.length > 1 && areSubmitted && !sides[0]?.some((file) => sides[1]?.includes(file))
    }),
  )
  return isFound ? REASON : undefined
}

/** Bounds the time of a check. */
const CALLS_MAX = 200

/** Lists the bodies of functions for each of their calls, with the arguments in place of `$1` to `$9`. */
function listCalledBodies(commands: readonly ShellCommand[]): { list: readonly ShellCommand[] }[] {
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
  words: command.words.map((word) => fillIn(word, args)),
  redirects: command.redirects.map((redirect) => ({ ...redirect, target: fillIn(redirect.target, args) })),
})

const fillIn = (word: ShellWord, args: readonly ShellWord[]): ShellWord =>
  word.flatMap((part) => {
    if (part.kind === 'substitution')
      return [{ ...part, commands: part.commands.map((command) => withArguments(command, args)) }]
    const isArgument = part.kind === 'variable' && /^[1-9]$/.test(part.name) && part.operator === ''
    return isArgument ? (args[Number(part.name) - 1] ?? []) : [part]
  })

const isSubmittedPath = (submission: readonly string[], path: string): boolean =>
  submission.length === 0
    ? !/^\/(?:tests|tmp|logs|usr|etc|dev|proc|sys|bin|lib|opt)(?:\/|$)/.test(path)
    : submission.some((folder) => path === folder || path.startsWith(`${folder}/`))

const nameOf = (words: readonly ShellWord[]): string => programName(plainText(toCall(words).command ?? []) ?? '')

/** Returns true for `cd` to another folder than the submission. */
function leavesSubmission(context: ComparisonContext, { kind, words }: ShellCommand): boolean {
  const { args } = toCall(words)
  if (kind !== 'simple' || nameOf(words) !== 'cd') return false
  const path = context.resolve(args[0] ?? [])
  return path === undefined || (path.startsWith('/') && !isSubmittedPath(context.submission, path))
}

const EQUALITY = /^(?:==?|!=)$/
const COMPARING = /^(?:cmp|diff|comm|join|paste)$/
/** Programs of awk and options of jq that hold one file against another. */
const JOINING: Partial<Record<string, RegExp>> = {
  awk: /\bNR ?== ?FNR\b|\bFNR ?== ?NR\b|\bgetline\b/,
  jq: /^(?:-\w*s\w*|--slurp|--slurpfile|--rawfile|--argfile)$|\binputs?\b/,
}

/** Returns the files on both sides of a comparison. */
function readSides(
  context: ComparisonContext,
  list: readonly ShellCommand[],
  { kind, words, redirects }: ShellCommand,
  at: number,
): string[][] {
  const name = kind === 'simple' ? nameOf(words) : ''
  if (kind === 'test' || name === '[' || name === 'test') {
    const place = words.findIndex((word) => EQUALITY.test(plainText(word) ?? ''))
    return place < 1 ? [] : [words[place - 1], words[place + 1]].map((word) => filesOf(context, word ?? []))
  }
  const joining = JOINING[name.replace(/^[gmn]awk$/, 'awk')]
  if (joining) return readJoined(context, toCall(words).args, joining)
  if (!COMPARING.test(name)) return []
  const input = [...filesRead(context, pipedInto(list, at)), ...listInputs(context, redirects)]
  return listOperands(toCall(words).args).map((word) => {
    if (plainText(word) === '-') return input
    const path = context.resolve(word)
    return path === undefined ? filesOf(context, word) : [path]
  })
}

/** Returns the files that awk or jq hold against each other. */
function readJoined(context: ComparisonContext, args: readonly ShellWord[], joining: RegExp): string[][] {
  if (!args.some((word) => joining.test(plainText(word) ?? ''))) return []
  return args.flatMap((word) => {
    const path = context.resolve(word)
    return path !== undefined && /^\/[\w./-]+$/.test(path) ? [[path]] : []
  })
}

/** Returns the commands whose output is the input of a command. */
function pipedInto(list: readonly ShellCommand[], at: number): ShellCommand[] {
  let start = at
  while (list[start - 1]?.isPiped) start -= 1
  return list.slice(start, at)
}

const listOperands = (args: readonly ShellWord[]): ShellWord[] =>
  args.filter((word) => !/^-./.test(plainText(word) ?? ''))

const listInputs = (context: ComparisonContext, redirects: ShellCommand['redirects']): string[] =>
  redirects.filter(({ operator }) => operator === '<').flatMap(({ target }) => context.resolve(target) ?? [])

const DEPTH_MAX = 5

/** Returns the files from which a text comes. */
const filesOf = (context: ComparisonContext, word: readonly WordPart[], depth = 0): string[] =>
  word.flatMap((part) => {
    if (part.kind === 'substitution') return filesRead(context, part.commands)
    if (part.kind !== 'variable' || part.operator !== '' || depth > DEPTH_MAX) return []
    return context.listValues(part.name).flatMap((value) => filesOf(context, value, depth + 1))
  })

/** Programs that print a text or a checksum of the files that they are given. */
const PRINTING = /^(?:cat|head|tail|sort|uniq|rev|tac|cut|jq|\w+sum|base64|od)$/
/** Programs that print no more than a count. */
const COUNTING = /^(?:wc|stat|du|ls)$/

function filesRead(context: ComparisonContext, commands: readonly ShellCommand[]): string[] {
  if (commands.some(({ words }) => COUNTING.test(nameOf(words)))) return []
  return commands.flatMap(({ kind, words, redirects }) => {
    const operands = kind === 'simple' && PRINTING.test(nameOf(words)) ? listOperands(toCall(words).args) : []
    const paths = operands.flatMap((word) => context.resolve(word) ?? []).filter((text) => /[/.]/.test(text))
    return [...paths.filter((text) => /^[\w./-]+$/.test(text)), ...listInputs(context, redirects)]
  })
}
