import { listCommandLists } from './shell-program-output.ts'
import type { ScriptTrust } from './shell-trust.ts'
import {
  ASSIGNMENT,
  commandName,
  leadingText,
  MKTEMP_PATH,
  plainText,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

// Programs of the candidate inherit the environment, get arguments and input, and can replace each of their files by a
// link to a file that only the grader may read.

/** `submission`: folders that programs of the candidate may be able to write to. */
type GraderContext = ScriptTrust & { submission: readonly string[] }

/** Returns how a grader hands out what it compares with, or lets the candidate choose what it reads. */
export function findGraderLeak(script: GraderContext, commands: readonly ShellCommand[]): string | undefined {
  const lists = [...listCommandLists(commands)].map(({ list }) => list)
  const all = lists.flat()
  const candidates = listCandidates(script)
  const isCandidate = (command: ShellCommand): boolean => candidates.has(commandName(command))
  const compared = listComparedNames(script, lists, isCandidate)
  return (
    findInheritedName(script, all, compared) ??
    findPassedName(all.filter(isCandidate), compared) ??
    findPassedFile(script, lists, isCandidate) ??
    findReplaceableFile(
      script,
      all.filter((command) => !isCandidate(command)),
      listCreatedPaths(script, all),
    )
  )
}

/** Returns `setpriv`, and the names of the functions that run it. */
export function listCandidates({ functions }: Pick<ScriptTrust, 'functions'>): ReadonlySet<string> {
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
  isCandidate: (command: ShellCommand) => boolean,
): ReadonlySet<string> {
  const words = lists.flatMap((list) =>
    list.flatMap((command, at) => {
      const next = list[at + 1]
      const isFeeding = command.isPiped && next !== undefined && !isCandidate(next)
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

/** Finds a variable that programs of the candidate inherit. */
function findInheritedName(
  { listValues }: ScriptTrust,
  all: readonly ShellCommand[],
  compared: ReadonlySet<string>,
): string | undefined {
  if (all.some(exportsAll)) return 'exports all its variables to programs of the candidate'
  const exported = all
    .flatMap(listExports)
    .find(({ name, isText }) => !HARMLESS.test(name) && !(isText && !compared.has(name)))
  if (exported !== undefined) return `exports ${exported.name}, which programs of the candidate inherit`
  const unset = new Set(
    all.filter((each) => commandName(each) === 'unset').flatMap(({ words }) => words.map(plainText)),
  )
  const inherited = [...compared].find(
    (name) => listValues(name).length === 0 && !HARMLESS.test(name) && !unset.has(name),
  )
  return inherited && `compares with ${inherited} of the environment, which programs of the candidate inherit`
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

function findPassedName(candidates: readonly ShellCommand[], compared: ReadonlySet<string>): string | undefined {
  const words = candidates.flatMap(({ words, redirects }) => [
    ...words,
    ...redirects.filter(({ operator }) => operator.startsWith('<<')).map(({ target }) => target),
  ])
  const passed = words.flatMap(listNames).find((name) => compared.has(name))
  return passed && `passes ${passed}, with which it compares, to a program of the candidate`
}

/** Finds a file of the tests that a program of the candidate gets as its input, and that the script also uses itself. */
function findPassedFile(
  { resolve }: ScriptTrust,
  lists: readonly (readonly ShellCommand[])[],
  isCandidate: (command: ShellCommand) => boolean,
): string | undefined {
  const isPassing = (list: readonly ShellCommand[], at: number): boolean => {
    const [command, next] = list.slice(at, at + 2)
    if (command === undefined) return false
    return isCandidate(command) || (commandName(command) === 'cat' && command.isPiped && !!next && isCandidate(next))
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
  return shared && `gives ${shared.slice(0, 60)}, which it uses itself, to a program of the candidate`
}

/** Programs that read the files that their operands name. */
const READING =
  /^(?:cat|head|tail|cut|wc|od|base64|rev|nl|fold|tac|paste|sort|uniq|cmp|diff|comm|[ef]?grep|[gmn]?awk|sed|jq|cp|mv|tar|gunzip|zcat|python[\d.]*|node|(?:md5|sha\d+|b2|ck)sum)$/
/** Programs whose first operand is a pattern or a program. */
const PROGRAM_FIRST = /^(?:[ef]?grep|[gmn]?awk|sed|jq)$/
/** Folders that only root can write to. */
const OWN_PATH = /^\/(?:tests|logs|dev|proc|sys|etc|usr|bin|sbin|lib\w*)(?:\/|$)/

function findReplaceableFile(
  script: GraderContext,
  commands: readonly ShellCommand[],
  created: ReadonlySet<string>,
): string | undefined {
  const words = commands.flatMap((command) => {
    const inputs = command.redirects.filter(({ operator }) => operator === '<').map(({ target }) => target)
    return [...inputs, ...listOperands(command)]
  })
  const found = words.find((word) => isReplaceable(script, word, created))
  return (
    found &&
    `reads ${script.resolve(found)?.slice(0, 60) ?? 'a file'}, which a program of the candidate can replace by a link`
  )
}

function listOperands(command: ShellCommand): readonly ShellWord[] {
  const name = commandName(command)
  if (!READING.test(name)) return []
  const texts = (word: ShellWord): string => plainText(word) ?? ''
  const operands = toCall(command.words).args.filter((word) => !/^[-+]|^\d+$/.test(texts(word)))
  const hasPattern = toCall(command.words).args.some((word) => /^-\w*[ef]$/.test(texts(word)))
  return PROGRAM_FIRST.test(name) && !hasPattern ? operands.slice(1) : operands
}

/** Lists the files below /tmp that the script itself creates before it reads them. */
const listCreatedPaths = ({ resolve }: ScriptTrust, all: readonly ShellCommand[]): ReadonlySet<string> =>
  new Set(
    all.flatMap(({ redirects }) =>
      redirects.flatMap(({ operator, target }) => (operator.includes('>') ? (resolve(target) ?? []) : [])),
    ),
  )

/** Folders that are writable for all users. */
const OPEN_PATH = /^\/(?:tmp|var\/tmp|run)(?:\/|$)/

/** Returns true unless a path is known to be apart from the files of the candidate. */
function isReplaceable(script: GraderContext, word: ShellWord, created: ReadonlySet<string>): boolean {
  const { resolve, listValues, submission } = script
  if (word.some((part) => part.kind === 'substitution' && part.isFile)) return false
  const end = word.findIndex((part) => resolve([part]) === undefined)
  const values = end === 0 && word[0]?.kind === 'variable' ? listValues(word[0].name) : []
  // A variable whose values all begin in a known folder, such as that of a loop over files of the tests.
  if (values.length > 0) return !values.every((value) => isOwn(resolve(value) ?? leadingText(value)))
  const start = resolve(end === -1 ? word : word.slice(0, end)) ?? ''
  if (isOwn(start) || (end === -1 && created.has(start))) return false
  return !start.startsWith('/') || isOpen(start, submission)
}

const isOwn = (path: string): boolean =>
  !path.includes('..') && (path === '-' || OWN_PATH.test(path) || path.startsWith(MKTEMP_PATH))

const isOpen = (path: string, submission: readonly string[]): boolean =>
  OPEN_PATH.test(path) ||
  path.includes('..') ||
  submission.length === 0 ||
  submission.some((folder) => path.startsWith(folder))
