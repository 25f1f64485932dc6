import { findGraderLeak, listCandidates } from './grader-leaks.ts'
import { listCommandLists } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import {
  commandName,
  MKTEMP_PATH,
  plainText,
  type Redirect,
  type ShellCommand,
  type ShellWord,
  toCall,
} from './shell-words.ts'

// A grader runs programs of the candidate with setpriv as another user, who can read neither the tests nor the reward. Such
// a program still gets open files of the script, can read /tmp, and sees the arguments of other programs in /proc.

type GraderScript = ScriptTrust & {
  /** The script is an argument of a shell in another script. */
  isNested: boolean
  /** Commands of the other scripts of the step. */
  others: readonly ShellCommand[]
  /** Paths of the candidate's files. */
  submission: readonly string[]
}

/** Returns the reason if a script of a grader gives a program of the candidate access to what it expects. */
export function checkGrader(script: GraderScript, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands)].map(({ list }) => list)
  const all = lists.flat()
  if (!all.some(isCandidate)) return undefined
  if (script.isNested) return 'runs programs of the candidate in a nested script'
  if (all.some(({ redirects }) => redirects.some(opensDescriptor)))
    return 'opens a file that programs of the candidate inherit'
  if (all.some(readsAround) && lists.some((list) => list.some((_, at) => inheritsInput(list, at))))
    return 'runs a program of the candidate with the input that it reads itself'
  const shared = lists.flatMap((list) => list.flatMap((_, at) => listSharedPaths(script, list, at)))[0]
  if (shared !== undefined) return `writes to ${shared.slice(0, 60)}, which programs of the candidate can read`
  const leak = findGraderLeak(script, commands)
  if (leak !== undefined) return leak
  const isKilling = [...all, ...[...listCommandLists(script.others)].flatMap(({ list }) => list)].some(killsAll)
  return !isKilling && all.some(showsArguments)
    ? 'does not end the processes of the candidate, which see the arguments of other programs'
    : undefined
}

/** Programs that get values to compare with as arguments. */
const SHOWING = /^(?:[ef]?grep|[gmn]?awk|jq|expr|sed|seq|python[\d.]*|node)$/
const PROGRAM_WORD = /^(?:env|nice|nohup|timeout|\/.*\/(?:echo|printf|test))$/

/** Returns true if a command shows a value in its arguments. Arguments of shell builtins are not visible. */
function showsArguments(command: ShellCommand): boolean {
  const name = commandName(command)
  const isProgram = command.words.some((word) => PROGRAM_WORD.test(plainText(word) ?? ''))
  return SHOWING.test(name) || (isProgram && /^(?:echo|printf|test)$/.test(name))
}

const isCandidate = (command: ShellCommand): boolean => commandName(command) === 'setpriv'

/** Returns true if a redirect opens a descriptor that programs inherit besides input, output and errors. */
const opensDescriptor = ({ descriptor, target }: Redirect): boolean =>
  !/^[012]?$/.test(descriptor) && plainText(target) !== '-'

const readsFile = ({ redirects }: ShellCommand): boolean =>
  redirects.some(({ descriptor, operator }) => operator.startsWith('<') && /^0?$/.test(descriptor))

/** Returns true for `read` without a file of its own: it reads the input of the loop or the script around it. */
const readsAround = (command: ShellCommand): boolean =>
  /^(?:read|mapfile|readarray)$/.test(commandName(command)) && !readsFile(command)

const inheritsInput = (list: readonly ShellCommand[], at: number): boolean => {
  const command = list[at]
  return command !== undefined && isCandidate(command) && !readsFile(command) && list[at - 1]?.isPiped !== true
}

/** Lists the paths below /tmp to which a command writes something else than output of the candidate. */
function listSharedPaths(script: GraderScript, list: readonly ShellCommand[], at: number): string[] {
  const command = list[at]
  if (command === undefined) return []
  const sources = [command, ...list.slice(at - (command.groupLength ?? 0), at)]
  const isOutput = sources.some((each) => printsCandidate(script, each))
  const redirected = command.redirects.flatMap(({ operator, target }) =>
    operator.includes('>') && !isOutput ? (script.resolve(target) ?? []) : [],
  )
  const name = commandName(command)
  const operands = /^(?:cp|mv|tee)$/.test(name) ? toCall(command.words).args : []
  const isFed = name === 'tee' && at > 0 && list.slice(at - 1, at).some((each) => printsCandidate(script, each))
  const copied = isFed ? [] : operands.slice(name === 'tee' ? 0 : -1).flatMap((word) => script.resolve(word) ?? [])
  return [...redirected, ...copied].filter((path) => /^\/tmp(?:\/|$)/.test(path) && !path.startsWith(MKTEMP_PATH))
}

/** Returns true if a command is, or calls a function that contains, a program of the candidate. */
const printsCandidate = (script: GraderScript, command: ShellCommand): boolean =>
  listCandidates(script).has(commandName(command))

const killsAll = ({ words }: ShellCommand): boolean =>
  /\bkill -(?:9|KILL|SIGKILL|s KILL) (?:-- )?-1\b/.test(words.map((word) => plainText(word) ?? '').join(' '))

/** Checks that a grader runs what the candidate wrote as another user than root, without any capability. */
export function checkSetpriv({ hasGrader }: { hasGrader: boolean }, args: readonly ShellWord[]): string | undefined {
  const texts = args.map((word) => plainText(word) ?? '')
  const isOther = texts.some((text) => /^--reuid=[1-9]/.test(text))
  const keepsRights = texts.some((text) => /^--(?:inh|ambient)-caps(?!=-all$)|^--securebits/.test(text))
  return hasGrader && isOther && !keepsRights ? undefined : 'runs setpriv, which is not known to only read'
}
