import type { ScriptTrust } from './shell-trust.ts'
import {
  ASSIGNMENT,
  commandName,
  leadingText,
  plainText,
  type ShellCommand,
  type ShellWord,
  toCall,
  type WordPart,
} from './shell-words.ts'

/** Programs of the tests. */
export const VERIFIER_PROGRAM = /^(?:python[\d.]*|node|pytest|py\.test|\/tests\/.*\.(?:py|[cm]?js))$/

/** Programs that print what they read. */
const FORWARDERS = new Set(['tee', 'cat', 'head', 'tail'])
/** Programs that show, copy, move or remove a file without searching it. */
const FILE_COMMANDS = new Set('cat head tail tee ls cp mv rm chmod mkdir touch stat [ test'.split(' '))

const REASON = 'searches the output of its test program, which can quote the submission'

/**
 * Returns the reason if a script decides by a part of what its test programs print. Their output quotes the submission: in
 * messages of failed assertions, in reports, in printed values. A script that searches it for a word may find that word in a
 * quotation. Only the exit status of a program and its whole output are reliable.
 */
export function checkProgramOutput(trust: ScriptTrust, commands: readonly ShellCommand[]): string | undefined {
  const output: ProgramOutput = { files: new Map(), variables: new Set() }
  const lists = [...listCommandLists(commands)]
  for (const { list } of lists) collectOutput(trust, list, output)
  return lists.some(({ list, isCaptured }) => searchesOutput(trust, list, output, isCaptured)) ? REASON : undefined
}

/** `files`: paths with output of test programs, and the command that writes each. `variables`: names of such texts. */
type ProgramOutput = { files: Map<string, ShellCommand>; variables: Set<string> }

export type ListedCommands = { list: readonly ShellCommand[]; isCaptured: boolean }

/** Lists the commands of a script, of its functions and of its substitutions. The output of substitutions is captured. */
export function* listCommandLists(list: readonly ShellCommand[], isCaptured = false): Generator<ListedCommands> {
  yield { list, isCaptured }
  for (const { words, redirects, body } of list) {
    if (body.length > 0) yield* listCommandLists(body, isCaptured)
    for (const word of [...words, ...redirects.map(({ target }) => target)])
      for (const commands of listSubstitutions(word)) yield* listCommandLists(commands, true)
  }
}

const listSubstitutions = (parts: readonly WordPart[]): ShellCommand[][] =>
  parts.flatMap((part) => {
    if (part.kind === 'substitution') return [part.commands]
    if (part.kind === 'array') return part.words.flatMap(listSubstitutions)
    return part.kind === 'variable' ? listSubstitutions(part.nested) : []
  })

/** Returns for each command, at its index, whether it prints output of a test program. */
function markOutputPrinters(list: readonly ShellCommand[]): boolean[] {
  const printsAt: boolean[] = []
  for (const [at, command] of list.entries()) {
    const isFed = list[at - 1]?.isPiped === true && printsAt[at - 1] === true
    const group = command.groupLength === undefined ? [] : printsAt.slice(at - command.groupLength, at)
    const name = commandName(command)
    printsAt.push(VERIFIER_PROGRAM.test(name) || (isFed && FORWARDERS.has(name)) || group.includes(true))
  }
  return printsAt
}

function collectOutput(trust: ScriptTrust, list: readonly ShellCommand[], output: ProgramOutput): void {
  const printsAt = markOutputPrinters(list)
  for (const [at, command] of list.entries()) {
    const paths = listWrittenPaths(trust, command, printsAt[at] === true, output)
    const added = paths.filter((path) => OUTPUT_PATH.test(path) && !output.files.has(path))
    for (const path of added) output.files.set(path, command)
    for (const word of toCall(command.words).assignments) collectVariable(word, output.variables)
  }
}

/** Lists the files into which a command writes output of a test program. */
function listWrittenPaths(
  trust: ScriptTrust,
  command: ShellCommand,
  isPrinter: boolean,
  { files }: ProgramOutput,
): string[] {
  const name = commandName(command)
  const texts = toCall(command.words).args.map((word) => trust.resolve(word) ?? '')
  const redirected = command.redirects
    .filter(({ operator }) => operator.includes('>'))
    .map(({ target }) => trust.resolve(target) ?? '')
  // Reports, such as --junitxml=/logs/verifier/report.xml.
  if (VERIFIER_PROGRAM.test(name)) return [...redirected, ...texts.map((text) => text.replace(/^--?[\w-]+=/, ''))]
  if (isPrinter) return [...redirected, ...(name === 'tee' ? texts : [])]
  if (name === 'exec' && texts.length === 0) return redirected
  return /^(?:cp|mv)$/.test(name) && texts.some((text) => files.has(text)) ? texts.slice(-1) : []
}

function collectVariable(assignment: ShellWord, variables: Set<string>): void {
  const [, name] = ASSIGNMENT.exec(leadingText(assignment)) ?? []
  if (name && (printsOutput(assignment) || mentions(assignment, variables))) variables.add(name)
}

const OUTPUT_PATH = /^\/(?:logs|tmp)\/./

const printsOutput = (word: ShellWord): boolean =>
  listSubstitutions(word).some((commands) => markOutputPrinters(commands).includes(true))

const mentions = (parts: readonly WordPart[], names: ReadonlySet<string>): boolean =>
  parts.some((part) => part.kind === 'variable' && names.has(part.name))

function searchesOutput(
  trust: ScriptTrust,
  list: readonly ShellCommand[],
  output: ProgramOutput,
  isCaptured: boolean,
): boolean {
  const printsAt = markOutputPrinters(list)
  return list.some((command, at) => {
    const next = list[at + 1]
    const isSearched = command.isPiped && next !== undefined && !FORWARDERS.has(commandName(next))
    if (printsAt[at] && isSearched) return true
    return readsFile(trust, command, output, isSearched || isCaptured) || searchesVariable(command, output, isSearched)
  })
}

function readsFile(trust: ScriptTrust, command: ShellCommand, { files }: ProgramOutput, isRead: boolean): boolean {
  const { words, redirects } = command
  const isForeign = (word: ShellWord): boolean => {
    const writer = files.get(trust.resolve(word) ?? '')
    return writer !== undefined && writer !== command
  }
  if (redirects.some(({ operator, target }) => operator === '<' && isForeign(target))) return true
  const name = commandName(command)
  const onlyKeepsFile = FILE_COMMANDS.has(name) && !(isRead && FORWARDERS.has(name))
  return !onlyKeepsFile && toCall(words).args.some(isForeign)
}

function searchesVariable(command: ShellCommand, { variables }: ProgramOutput, isSearched: boolean): boolean {
  const { kind, words, redirects } = command
  if (redirects.some(({ operator, target }) => operator === '<<<' && mentions(target, variables))) return true
  const using = words.filter((word) => mentions(word, variables))
  if (using.length === 0) return false
  if (using.some((word) => word.some(cutsText))) return true
  if (kind === 'words' || (kind === 'simple' && isSearched)) return true
  return kind === 'test' && words.some((word) => plainText(word) === '=~' || hasWildcard(word))
}

/** Returns true for `${name#…}` and similar expansions, which use only a part of the text. A default value does not. */
const cutsText = (part: WordPart): boolean => part.kind === 'variable' && !/^(?:$|:?[-=+?])/.test(part.operator)

const hasWildcard = (word: ShellWord): boolean =>
  word.some((part) => part.kind === 'text' && !part.isQuoted && /[*?[]/.test(part.text))
