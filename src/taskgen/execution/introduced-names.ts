/** A line that a patch shows, as it is after the change. */
type LandedLine = { text: string; isAdded: boolean; isCode: boolean }
/** Consecutive lines of one file. `language` is the name of a source language. */
export type LandedPiece = { path: string; language: string; lines: readonly LandedLine[] }

export type NameMeaning =
  | { kind: 'constant' | 'type'; text: string }
  | { kind: 'function'; params: string[]; body: string[] }

/** Names that a change introduces and that stand for code which can be written in their place. */
export type IntroducedNames = { language: string; meanings: Map<string, NameMeaning>; budget: { expansions: number } }

const NAMES_MAX = 500
/** Maximum number of names that are replaced in all texts of a change, so that untrusted text costs little time. */
const EXPANSIONS_MAX = 5000

/**
 * Collects the constants with a literal value, the other names for types (Go, Rust) and the functions (Go, Python,
 * JavaScript, TypeScript) whose definitions are in added lines. `path` is the file that uses the names: a Go file
 * sees only names of its own folder.
 */
export function collectNames(pieces: readonly LandedPiece[], path: string, language: string): IntroducedNames {
  const visible = pieces.filter(
    (piece) =>
      toFamily(piece.language) === toFamily(language) &&
      (language !== 'go' || readFolder(piece.path) === readFolder(path)),
  )
  const definitions = visible.flatMap(({ lines }) => [
    ...listConstantsAndTypes(lines, language),
    ...listFunctions(lines, toFamily(language)),
  ])
  return { language, meanings: indexDefinitions(definitions), budget: { expansions: EXPANSIONS_MAX } }
}

/** Returns the meaning of each name. A name that is defined in several ways is left out, because scopes are not read. */
function indexDefinitions(definitions: readonly Definition[]): Map<string, NameMeaning> {
  const meanings = new Map(definitions.slice(0, NAMES_MAX))
  const differs = ([name, meaning]: Definition) => JSON.stringify(meanings.get(name)) !== JSON.stringify(meaning)
  const ambiguous = definitions.filter(([name]) => meanings.has(name)).filter(differs)
  for (const [name] of ambiguous) meanings.delete(name)
  return meanings
}

/** Returns the name under which languages that import each other are grouped: JavaScript and TypeScript. */
const toFamily = (language: string): string => (language === 'typescript' ? 'javascript' : language)
const readFolder = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1)

type Definition = [name: string, meaning: NameMeaning]

const LITERAL = /(?<value>"(?:\\.|[^"\\]){0,400}"|'(?:\\.|[^'\\]){0,400}'|`[^`\\$]{0,400}`|-?\d[\w.]{0,40}|true|false)/
const toConstantPattern = (start: string, end: string): RegExp =>
  new RegExp(`^${start}\\s*=\\s*${LITERAL.source}${end}$`)
const SCRIPT_CONSTANT = toConstantPattern('(?:export\\s+)?const\\s+(?<name>[\\w$]+)(?:\\s*:[^=]{1,80})?', '\\s*;?')

/** Lines that define a constant with a literal value. */
const CONSTANTS: Record<string, RegExp> = {
  go: toConstantPattern('\\s*(?:const\\s+)?(?<name>\\w+)(?:\\s+\\w+)?', '\\s*(?://.*)?'),
  python: toConstantPattern('(?<name>_*[A-Z][A-Z0-9_]*)(?:\\s*:[^=]{1,80})?', '\\s*(?:#.*)?'),
  javascript: SCRIPT_CONSTANT,
  typescript: SCRIPT_CONSTANT,
  rust: toConstantPattern('(?:pub(?:\\([^)]{1,80}\\))?\\s+)?const\\s+(?<name>\\w+)\\s*:[^=]{1,80}', '\\s*;'),
}

/** Lines that give a type another name. A generic one has parameters, which are not substituted. */
const TYPE_ALIASES: Record<string, RegExp> = {
  go: /^type (?<name>\w+) = (?<value>[^/]{1,200})$/,
  rust: /^(?:pub(?:\([^)]{1,80}\))?\s+)?type (?<name>\w+) = (?<value>[^;]{1,200});$/,
}

const LINE_LENGTH_MAX = 1000

function listConstantsAndTypes(lines: readonly LandedLine[], language: string): Definition[] {
  const isInConstantBlock = language === 'go' ? markConstantBlocks(lines) : []
  return lines.flatMap(({ text, isAdded, isCode }, at) => {
    if (!isAdded || !isCode || text.length > LINE_LENGTH_MAX) return []
    // In Go, `name = value` declares a constant inside of `const ( )` and assigns a variable elsewhere.
    const isAssignment = language === 'go' && !isInConstantBlock[at] && !text.startsWith('const ')
    const constant = isAssignment ? [] : toDefinitions('constant', CONSTANTS[language]?.exec(text))
    return [...constant, ...toDefinitions('type', TYPE_ALIASES[language]?.exec(text))]
  })
}

/** Returns the definition that a pattern matched, as a list of one or none. */
function toDefinitions(kind: 'constant' | 'type', match: RegExpExecArray | null | undefined): Definition[] {
  const { name, value } = match?.groups ?? {}
  return name === undefined || value === undefined ? [] : [[name, { kind, text: value.trim() }]]
}

/** Returns for each line of a Go file whether it is inside of `const ( )`. */
function markConstantBlocks(lines: readonly LandedLine[]): boolean[] {
  let isInBlock = false
  return lines.map(({ text }) => {
    isInBlock = isInBlock ? !text.startsWith(')') : text.startsWith('const (')
    return isInBlock
  })
}

const SCRIPT_FUNCTION =
  /^(?<indent>)(?:export\s+)?(?:default\s+)?function (?<name>[\w$]+)\((?<params>[^()]*)\)[^{}]*\{$/
const SCRIPT_METHOD =
  /^(?<indent>\s+)(?:(?:public|private|protected)\s+)?(?<name>(?!(?:if|for|while|switch|catch|with|function)\b)[\w$]+)\((?<params>[^()]*)\)[^{}]*\{$/

/** First lines of functions and methods. A method is called by the name of its receiver. */
const FUNCTION_HEADS: Record<string, readonly RegExp[]> = {
  go: [/^(?<indent>)func (?:\((?<receiver>\w+) [^()]*\) )?(?<name>\w+)\((?<params>[^()]*)\)[^{}]*\{$/],
  python: [/^(?<indent>\s*)def (?<name>\w+)\((?:(?<receiver>self|cls)\b,?)?(?<params>[^()]*)\)(?:\s*->[^:]{1,200})?:$/],
  javascript: [SCRIPT_FUNCTION, SCRIPT_METHOD],
}
const ARROW_FUNCTION =
  /^(?:export\s+)?const (?<name>[\w$]+) = \((?<params>[^()]*)\)(?:\s*:[^=]{1,80})? => (?<result>[^{\s].*?);?$/

/** Maximum number of lines of a function. Longer ones are not compared with the code that they may have replaced. */
const BODY_LINES_MAX = 40

function listFunctions(lines: readonly LandedLine[], family: string): Definition[] {
  const isDecorated = (at: number) => family === 'python' && /^\s*@/.test(lines[at - 1]?.text ?? '')
  return lines.flatMap(({ text, isAdded }, at) =>
    !isAdded || text.length > LINE_LENGTH_MAX || isDecorated(at)
      ? []
      : readFunction(text, lines.slice(at + 1, at + 2 + BODY_LINES_MAX), family),
  )
}

/** Reads the function that begins with a line, if one does. */
function readFunction(first: string, rest: readonly LandedLine[], family: string): Definition[] {
  const arrow = family === 'javascript' ? ARROW_FUNCTION.exec(first)?.groups : undefined
  if (arrow) return defineFunction({ name: arrow.name, params: arrow.params }, [`return ${arrow.result}`])
  const pattern = FUNCTION_HEADS[family]?.find((each) => each.test(first))
  const { indent = '', name, params, receiver } = pattern?.exec(first)?.groups ?? {}
  const owner = pattern === SCRIPT_METHOD ? 'this' : receiver
  return pattern ? defineFunction({ name, params, receiver: owner }, readBody(rest, indent, family)) : []
}

/** Returns the statements of a function, or none if some are not added, or its end is not near. */
function readBody(lines: readonly LandedLine[], indent: string, family: string): string[] {
  const isEnd = ({ text }: LandedLine): boolean =>
    family === 'python'
      ? text.trim() !== '' && text.length - text.trimStart().length <= indent.length
      : text === `${indent}}`
  const end = lines.findIndex(isEnd)
  // A function of Python may end with its file.
  const isOpen = end < 0 && (family !== 'python' || lines.length > BODY_LINES_MAX)
  const body = lines.slice(0, end < 0 ? lines.length : end)
  const statements = body.filter(({ text, isCode }) => isCode && !COMMENT_OR_DOCUMENTATION.test(text))
  return isOpen || statements.some(({ isAdded }) => !isAdded) ? [] : statements.map(({ text }) => text)
}

const COMMENT_OR_DOCUMENTATION = /^\s*(?:(?:\/\/|#).*|("""|''').*\1)?$/

const PARAMS_MAX = 8

/** Statements that mean something else in another function. */
const BOUND_TO_FUNCTION = /\b(?:yield|defer|recover|arguments)\b/

type FunctionParts = { name?: string | undefined; params?: string | undefined; receiver?: string | undefined }

/**
 * Builds the definition of a function. Returns none if it cannot be written in the place of a call: if a parameter is
 * assigned, or has a default value, a pattern or any number of arguments.
 */
function defineFunction({ name = '', params = '', receiver }: FunctionParts, body: string[]): Definition[] {
  const declared = params.split(',').filter((param) => param.trim() !== '')
  const paramNames = declared.flatMap((param) => /^\s*(\w+)(?:\s*:[^=]*|\s+[^=.]*)?$/.exec(param)?.[1] ?? [])
  const hasOnlySimpleParams = paramNames.length === declared.length
  if (!hasOnlySimpleParams || paramNames.length > PARAMS_MAX || body.length === 0) return []
  const assignment = `\\b(?:${paramNames.join('|')})\\s*(?:[-+*/|&%:]?=(?!=)|\\+\\+|--)`
  const unusable = [
    BOUND_TO_FUNCTION,
    ...(paramNames.length > 0 ? [new RegExp(assignment)] : []),
    ...(receiver === undefined ? [/\bthis\b/] : []),
  ]
  if (body.some((line) => unusable.some((pattern) => pattern.test(line)))) return []
  return [[receiver === undefined ? name : `${receiver}.${name}`, { kind: 'function', params: paramNames, body }]]
}
