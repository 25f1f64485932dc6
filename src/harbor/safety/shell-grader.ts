import { checkSubmittedOutputs } from './shell-grader-outputs.ts'
import { listCommandLists } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import {
  ASSIGNMENT,
  commandName,
  leadingText,
  MKTEMP_PATH,
  plainText,
  type Redirect,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

type GraderScript = ScriptTrust & {
  /** The script is an argument of a shell in another script. */
  isNested: boolean
  /** Commands of the other scripts of the step. */
  others: readonly ShellCommand[]
  /** Folders that programs of the submission may be able to write to. */
  submission: readonly string[]
}

/**
 * Returns the reason if a script of a grader gives a program of the submission access to what it expects. A grader runs such
 * programs with setpriv as another user, who can read neither the tests nor the reward. They still get open files of the
 * script, can read /tmp, and see the arguments of other programs in /proc.
 */
export function checkGrader(script: GraderScript, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands)].map(({ list }) => list)
  const all = lists.flat()
  if (!all.some(runsSetpriv)) return undefined
  if (script.isNested) return 'runs programs of the submission in a nested script'
  if (all.some(({ redirects }) => redirects.some(opensDescriptor)))
    return 'opens a file that programs of the submission inherit'
  if (all.some(readsSharedInput) && lists.some((list) => list.some((_, at) => inheritsInput(list, at))))
    return 'runs a program of the submission with the input that it reads itself'
  const shared = lists.flatMap((list) => list.flatMap((_, at) => listSharedPaths(script, list, at)))[0]
  if (shared !== undefined) return `writes to ${shared.slice(0, 60)}, which programs of the submission can read`
  const opened = all.find((command) => opensFolder(script, command))
  if (opened) return 'calls chmod, which lets programs of the submission into a folder of the script'
  const leak = findGraderLeak(script, commands)
  if (leak !== undefined) return leak
  const isKilling = [...all, ...[...listCommandLists(script.others)].flatMap(({ list }) => list)].some(killsAll)
  return !isKilling && all.some(showsArguments)
    ? 'does not end the processes of the submission, which see the arguments of other programs'
    : undefined
}

/** Programs whose arguments may be values that the script compares with. */
const SHOWING = /^(?:[ef]?grep|[gmn]?awk|jq|expr|sed|seq|python[\d.]*|node)$/
/** Words that make a program of `echo`, `printf` or `test`, which are builtins otherwise. */
const PROGRAM_WORD = /^(?:env|nice|nohup|timeout|\/.*\/(?:echo|printf|test))$/

/** Returns true if a command shows a value in its arguments. Arguments of shell builtins are not visible. */
function showsArguments(command: ShellCommand): boolean {
  const name = commandName(command)
  const isProgram = command.words.some((word) => PROGRAM_WORD.test(plainText(word) ?? ''))
  return SHOWING.test(name) || (isProgram && /^(?:echo|printf|test)$/.test(name))
}

const runsSetpriv = (command: ShellCommand): boolean => commandName(command) === 'setpriv'

/** Returns true if a redirect opens a descriptor that programs inherit besides input, output and errors. */
const opensDescriptor = ({ descriptor, target }: Redirect): boolean =>
  !/^[012]?$/.test(descriptor) && plainText(target) !== '-'

const readsFile = ({ redirects }: ShellCommand): boolean =>
  redirects.some(({ descriptor, operator }) => operator.startsWith('<') && /^0?$/.test(descriptor))

/** Returns true for `read` without a file of its own: it reads the input of the loop or the script around it. */
const readsSharedInput = (command: ShellCommand): boolean =>
  /^(?:read|mapfile|readarray)$/.test(commandName(command)) && !readsFile(command)

const inheritsInput = (list: readonly ShellCommand[], at: number): boolean => {
  const command = list[at]
  return command !== undefined && runsSetpriv(command) && !readsFile(command) && list[at - 1]?.isPiped !== true
}

/** Lists the paths that all users can read to which a command writes something else than output of the submission. */
function listSharedPaths(script: GraderScript, list: readonly ShellCommand[], at: number): string[] {
  const command = list[at]
  if (command === undefined) return []
  const sources = [command, ...list.slice(at - (command.groupLength ?? 0), at)]
  const isOutput = sources.some((each) => printsSubmission(script, each))
  const redirected = command.redirects.flatMap(({ operator, target }) =>
    operator.includes('>') && !isOutput ? (script.resolve(target) ?? []) : [],
  )
  const name = commandName(command)
  const operands = /^(?:cp|mv|tee)$/.test(name) ? toCall(command.words).args : []
  const isFed = name === 'tee' && at > 0 && list.slice(at - 1, at).some((each) => printsSubmission(script, each))
  const copied = isFed ? [] : operands.slice(name === 'tee' ? 0 : -1).flatMap((word) => script.resolve(word) ?? [])
  return [...redirected, ...copied].filter((path) => /^\/(?:tmp|logs)(?:\/|$)/.test(path) && !isPrivate(path))
}

/** Folders that only root can enter. */
const PRIVATE_PATH = new RegExp(`^(?:${MKTEMP_PATH}|/(?:tests|logs/verifier)(?:/|$))`)
const isPrivate = (path: string): boolean => PRIVATE_PATH.test(path) && !path.includes('..')
/** Modes and changes that give no rights to other users. */
const PRIVATE_MODE = /^(?:0?[0-7]00|u[-+=][rwxX]*|(?:g|o|go|og)-[rwxX]+)$/

/** Matches a file, which has an extension, in a folder that only root can enter. */
const PRIVATE_FILE = new RegExp(`^(?:${MKTEMP_PATH}|/tests|/logs/verifier)/.*\\.\\w+$`)
/** Matches an option of `chmod`. Words such as `-x` and `-w` are modes. */
const CHMOD_OPTION = /^--\w|^-[RcfvP]+$/

/**
 * Returns true for `chmod` that gives other users access to anything but a folder in /tmp, which they have anyway, or a file
 * in a folder that they cannot enter.
 */
function opensFolder({ resolve }: GraderScript, command: ShellCommand): boolean {
  if (commandName(command) !== 'chmod') return false
  const { args } = toCall(command.words)
  const isOption = (word: ShellWord): boolean => CHMOD_OPTION.test(plainText(word) ?? '')
  const isRecursive = args.some((word) => /^--recursive$|^-\w*R/.test(plainText(word) ?? ''))
  const [mode = [], ...paths] = args.filter((word) => !isOption(word))
  const isHarmless = (path = ''): boolean => {
    if (path.includes('..')) return false
    if (PRIVATE_FILE.test(path)) return !isRecursive
    return path.startsWith('/tmp/') && !isPrivate(path)
  }
  return !PRIVATE_MODE.test(plainText(mode) ?? '') && !paths.every((word) => isHarmless(resolve(word)))
}

/** Returns true if a command runs a program of the submission, directly or in a function. */
const printsSubmission = (script: GraderScript, command: ShellCommand): boolean =>
  listSubmissionRunners(script).has(commandName(command))

const killsAll = ({ words }: ShellCommand): boolean =>
  /\bkill -(?:9|KILL|SIGKILL|s KILL) (?:-- )?-1\b/.test(words.map((word) => plainText(word) ?? '').join(' '))

/**
 * Returns how a grader hands out what it compares with, or lets the submission choose what it reads. A program of the
 * submission inherits the environment, gets arguments and input, and can replace each of its files by a link to a file that
 * only the grader may read.
 */
function findGraderLeak(script: GraderScript, commands: readonly ShellCommand[]): string | undefined {
  const listed = [...listCommandLists(commands)]
  const lists = listed.map(({ list }) => list)
  const all = lists.flat()
  const runners = listSubmissionRunners(script)
  const runsSubmission = (command: ShellCommand): boolean => runners.has(commandName(command))
  const compared = listComparedNames(script, lists, runsSubmission)
  return (
    findInheritedName(script, all, compared) ??
    findPassedName(all.filter(runsSubmission), compared) ??
    findPassedFile(script, lists, runsSubmission) ??
    checkSubmittedOutputs(script, listed, runsSubmission) ??
    findReplaceableFile(
      script,
      all.filter((command) => !runsSubmission(command)),
      listCreatedPaths(script, all),
    )
  )
}

/** Returns the names of the commands that run programs of the submission: `setpriv`, and functions that call it. */
function listSubmissionRunners({ functions }: Pick<ScriptTrust, 'functions'>): ReadonlySet<string> {
  const names = new Set(['setpriv'])
  for (let size = 0; size !== names.size; ) {
    size = names.size
    for (const [name, body] of functions) {
      const runs = [...listCommandLists(body)].some(({ list }) => list.some((each) => names.has(commandName(each))))
      if (runs) names.add(name)
    }
  }
  return names
}

const OPERATOR = /^(?:==?|!=|=~|<|>|-(?:eq|ne|lt|le|gt|ge))$/
/** Programs that get values to compare with as arguments. */
const SEARCHING = /^(?:[ef]?grep|[gmn]?awk|jq|expr|sed|python[\d.]*|node)$/

/** Lists the variables that a script compares with, and those that they are made of. */
function listComparedNames(
  { listValues }: ScriptTrust,
  lists: readonly (readonly ShellCommand[])[],
  runsSubmission: (command: ShellCommand) => boolean,
): ReadonlySet<string> {
  const words = lists.flatMap((list) =>
    list.flatMap((command, at) => {
      const next = list[at + 1]
      const isFeeding = command.isPiped && next !== undefined && !runsSubmission(next)
      return listComparedWords(command, isFeeding)
    }),
  )
  const names = new Set(words.flatMap(listNames))
  // Names that are added while the set is walked are walked too.
  for (const name of names) for (const each of listValues(name).flatMap(listNames)) names.add(each)
  return names
}

function listComparedWords(command: ShellCommand, isFeeding: boolean): ShellWord[] {
  const { kind, words, redirects } = command
  const name = commandName(command)
  const texts = redirects.filter(({ operator }) => operator === '<<<').map(({ target }) => target)
  if (kind === 'pattern') return words
  if (kind === 'test' || name === '[' || name === 'test')
    return words.filter((_, at) =>
      [words[at - 1], words[at + 1]].some((side) => OPERATOR.test(plainText(side ?? []) ?? '')),
    )
  if (SEARCHING.test(name) || (isFeeding && /^(?:echo|printf)$/.test(name))) return [...words, ...texts]
  return /^(?:cmp|diff|comm|cat|head|tail)$/.test(name) ? texts : []
}

const listNames = (word: readonly WordPart[]): string[] =>
  word.flatMap((part) => {
    if (part.kind === 'array') return part.words.flatMap(listNames)
    return part.kind === 'variable' && /^[A-Za-z_]/.test(part.name) ? [part.name, ...listNames(part.nested)] : []
  })

/** Variables that tell programs where they run. */
const HARMLESS =
  /^(?:PATH|HOME|PWD|OLDPWD|USER|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TERM|RANDOM|SECONDS|E?UID|HOSTNAME|DEBIAN_FRONTEND|PYTHON(?:DONTWRITEBYTECODE|UNBUFFERED|HASHSEED))$/

/** Finds a variable that programs of the submission inherit. */
function findInheritedName(
  { listValues }: ScriptTrust,
  all: readonly ShellCommand[],
  compared: ReadonlySet<string>,
): string | undefined {
  if (all.some(exportsAll)) return 'exports all its variables to programs of the submission'
  const exported = all
    .flatMap(listExports)
    .find(({ name, isText }) => !HARMLESS.test(name) && !(isText && !compared.has(name)))
  if (exported !== undefined) return `exports ${exported.name}, which programs of the submission inherit`
  const unset = new Set(
    all.filter((each) => commandName(each) === 'unset').flatMap(({ words }) => words.map(plainText)),
  )
  const inherited = [...compared].find(
    (name) => listValues(name).length === 0 && !HARMLESS.test(name) && !unset.has(name),
  )
  return inherited && `compares with ${inherited} of the environment, which programs of the submission inherit`
}

const exportsAll = (command: ShellCommand): boolean =>
  commandName(command) === 'set' && command.words.some((word) => /^-\w*a|^allexport$/.test(plainText(word) ?? ''))

/** Lists the variables that a command exports. `isText`: the value is written in the script. */
function listExports(command: ShellCommand): { name: string; isText: boolean }[] {
  const { args } = toCall(command.words)
  const name = commandName(command)
  const isExport =
    name === 'export' ||
    (/^(?:declare|typeset|readonly|local)$/.test(name) && args.some((word) => /^-\w*x/.test(plainText(word) ?? '')))
  if (!isExport) return []
  return args
    .filter((word) => !plainText(word)?.startsWith('-'))
    .map((word) => {
      const [, assigned] = ASSIGNMENT.exec(leadingText(word)) ?? []
      return {
        name: assigned ?? plainText(word) ?? '',
        isText: assigned !== undefined && plainText(word) !== undefined,
      }
    })
}

function findPassedName(submitted: readonly ShellCommand[], compared: ReadonlySet<string>): string | undefined {
  const words = submitted.flatMap(({ words, redirects }) => [
    ...words,
    ...redirects.filter(({ operator }) => operator.startsWith('<<')).map(({ target }) => target),
  ])
  const passed = words.flatMap(listNames).find((name) => compared.has(name))
  return passed && `passes ${passed}, with which it compares, to a program of the submission`
}

/** Finds a file of the tests that a program of the submission gets as its input, and that the script also uses itself. */
function findPassedFile(
  { resolve }: ScriptTrust,
  lists: readonly (readonly ShellCommand[])[],
  runsSubmission: (command: ShellCommand) => boolean,
): string | undefined {
  const isPassing = (list: readonly ShellCommand[], at: number): boolean => {
    const [command, next] = list.slice(at, at + 2)
    if (command === undefined) return false
    return (
      runsSubmission(command) || (commandName(command) === 'cat' && command.isPiped && !!next && runsSubmission(next))
    )
  }
  const paths = lists.flatMap((list) =>
    list.flatMap((command, at) => {
      const inputs = command.redirects.filter(({ operator }) => operator === '<').map(({ target }) => target)
      const named = [...command.words, ...inputs].flatMap((word) => resolve(word) ?? [])
      return named.map((path) => ({ path, isPassed: isPassing(list, at) }))
    }),
  )
  const used = new Set(paths.filter(({ isPassed }) => !isPassed).map(({ path }) => path))
  const shared = paths.find(({ path, isPassed }) => isPassed && path.startsWith('/tests/') && used.has(path))?.path
  return shared && `gives ${shared.slice(0, 60)}, which it uses itself, to a program of the submission`
}

/** Programs that read the files that their operands name. */
const READING =
  /^(?:cat|head|tail|cut|wc|od|base64|rev|nl|fold|tac|paste|sort|uniq|cmp|diff|comm|[ef]?grep|[gmn]?awk|sed|jq|cp|mv|tar|gunzip|zcat|python[\d.]*|node|(?:md5|sha\d+|b2|ck)sum)$/
/** Programs whose first operand is a pattern or a program. */
const PROGRAM_FIRST = /^(?:[ef]?grep|[gmn]?awk|sed|jq)$/
/** Folders that only root can write to. */
const ROOT_PATH = /^\/(?:tests|logs|dev|proc|sys|etc|usr|bin|sbin|lib\w*)(?:\/|$)/

function findReplaceableFile(
  script: GraderScript,
  commands: readonly ShellCommand[],
  created: ReadonlySet<string>,
): string | undefined {
  const words = commands.flatMap((command) => {
    const inputs = command.redirects.filter(({ operator }) => operator === '<').map(({ target }) => target)
    return [...inputs, ...listOperands(command)]
  })
  const replaceable = words.find((word) => isReplaceable(script, word, created))
  return (
    replaceable &&
    `reads ${script.resolve(replaceable)?.slice(0, 60) ?? 'a file'}, which a program of the submission can replace by a link`
  )
}

function listOperands(command: ShellCommand): readonly ShellWord[] {
  const name = commandName(command)
  if (!READING.test(name)) return []
  const textOf = (word: ShellWord): string => plainText(word) ?? ''
  const operands = toCall(command.words).args.filter((word) => !/^[-+]|^\d+$/.test(textOf(word)))
  const hasPattern = toCall(command.words).args.some((word) => /^-\w*[ef]$/.test(textOf(word)))
  return PROGRAM_FIRST.test(name) && !hasPattern ? operands.slice(1) : operands
}

/** Lists the files that the script itself writes by a redirect. */
const listCreatedPaths = ({ resolve }: ScriptTrust, all: readonly ShellCommand[]): ReadonlySet<string> =>
  new Set(
    all.flatMap(({ redirects }) =>
      redirects.flatMap(({ operator, target }) => (operator.includes('>') ? (resolve(target) ?? []) : [])),
    ),
  )

/** Folders that are writable for all users. */
const SHARED_PATH = /^\/(?:tmp|var\/tmp|run)(?:\/|$)/

/** Returns true unless a path is known to be apart from the files of the submission. */
function isReplaceable(script: GraderScript, word: ShellWord, created: ReadonlySet<string>): boolean {
  const { resolve, listValues, submission } = script
  if (word.some((part) => part.kind === 'substitution' && part.isFile)) return false
  const end = word.findIndex((part) => resolve([part]) === undefined)
  const values = end === 0 && word[0]?.kind === 'variable' ? listValues(word[0].name) : []
  // A variable whose values all begin in a known folder, such as that of a loop over files of the tests.
  if (values.length > 0) return !values.every((value) => isProtected(resolve(value) ?? leadingText(value)))
  const start = resolve(end === -1 ? word : word.slice(0, end)) ?? ''
  if (isProtected(start) || (end === -1 && created.has(start))) return false
  return !start.startsWith('/') || isWritable(start, submission)
}

/** Returns true for a path that only root or the script can write to. */
const isProtected = (path: string): boolean =>
  !path.includes('..') && (path === '-' || ROOT_PATH.test(path) || path.startsWith(MKTEMP_PATH))

/** Returns true for a path that programs of the submission may be able to write to. */
const isWritable = (path: string, submission: readonly string[]): boolean =>
  SHARED_PATH.test(path) ||
  path.includes('..') ||
  submission.length === 0 ||
  submission.some((folder) => path.startsWith(folder))

/** Checks that a grader runs what the agent wrote as another user than root, without any capability. */
export function checkSetpriv({ hasGrader }: { hasGrader: boolean }, args: readonly ShellWord[]): string | undefined {
  const texts = args.map((word) => plainText(word) ?? '')
  const isOther = texts.some((text) => /^--reuid=[1-9]/.test(text))
  const keepsRights = texts.some((text) => /^--(?:inh|ambient)-caps(?!=-all$)|^--securebits/.test(text))
  return hasGrader && isOther && !keepsRights ? undefined : 'runs setpriv, which is not known to only read'
}
