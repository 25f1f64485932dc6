import {
  evaluate,
  FILE_READERS,
  OPENERS,
  type PythonFlow,
  type PythonScope,
  readFlow,
  spend,
  UNKNOWN_ORIGIN,
  UnfollowablePython,
} from './python-flow.ts'
import { insideBrackets, operandsBeside, outsideBrackets, splitArguments } from './python-statements.ts'

/**
 * Returns why Python tests let the submission decide what they compare: it names a file that they read, writes an SQL
 * statement, a pattern or a schema that they use, or they compare two of its files. Undefined: none was found.
 */
export function findSubmittedUse(source: string, submission: readonly string[]): string | undefined {
  try {
    const flow = readFlow(source, submission)
    for (const { scope, code } of flow.statements) {
      const found =
        findNamedFile(flow, scope, code) ??
        findSql(flow, scope, code) ??
        findPattern(flow, scope, code) ??
        findComparison(flow, scope, code)
      if (found !== undefined) return found
    }
    return undefined
  } catch (error) {
    if (error instanceof UnfollowablePython || error instanceof RangeError) return 'is too long to be followed'
    throw error
  }
}

const NAMED_FILE = 'reads files that the submission can name'

/** Arguments of a call, and the code behind it. */
type CallArguments = string[] & { behind: string }

/** Lists the arguments of calls in a statement. */
function* listCalls(flow: PythonFlow, code: string, pattern: RegExp): Generator<CallArguments> {
  for (const { 0: call, index } of code.matchAll(pattern)) {
    spend(flow, code.length)
    const open = index + call.length
    const inside = insideBrackets(code, open - 1)
    yield Object.assign(splitArguments(inside), { behind: code.slice(open + inside.length + 1) })
  }
}

/** Calls that find a file or a folder which their first argument names, but do not read it. */
const FINDERS = 'exists|lexists|isfile|isdir|getsize|chdir|listdir|scandir|i?glob|rglob'
const READING = new RegExp(
  `(?:(?<![\\w.])open|(?<!\\w)(?:${OPENERS})\\.open|(?<!\\w)(?:${FILE_READERS}|${FINDERS}))\\s*\\(`,
  'g',
)
const JOINING = /(?<!\w)(?:Path|PurePath|PurePosixPath|joinpath|path\.join)\s*\(/g
/** Attributes of a path that are texts, for which no file is read. */
const PATH_PART = /^\.(?:name|stem|suffix|suffixes|parts)\b/
const DIVISION = /('\d+'|\)|(?:self\.)?\w+) ?\/ ?(?:str\()?((?:self\.)?[a-z_]\w*(?:\[[^\]]*\]|\.\w+\([^()]*\))*)/g

function findNamedFile(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const isNamed = (argument = ''): boolean => {
    const { origins, isHandle } = evaluate(flow, scope, argument.replace(/^\w+\s*=(?!=)/, ''))
    return origins.size > 0 && !isHandle
  }
  if (listCalls(flow, code, READING).some(([file]) => isNamed(file))) return NAMED_FILE
  const isJoined = listCalls(flow, code, JOINING).some(
    (parts) => !PATH_PART.test(parts.behind) && parts.some((part) => isNamed(part)),
  )
  if (isJoined) return NAMED_FILE
  const isDivided = code
    .matchAll(DIVISION)
    .some(({ 1: left = '', 2: right = '', index }) => isPath(flow, scope, code.slice(0, index), left) && isNamed(right))
  return isDivided ? NAMED_FILE : undefined
}

/** Returns true if the left side of a slash is a path and not a number. */
function isPath(flow: PythonFlow, scope: PythonScope, before: string, name: string): boolean {
  if (name === ')') return endsWithPath(`${before})`)
  const { origins, texts, isTest } = evaluate(flow, scope, name)
  return isTest || (origins.size === 0 && texts.size > 0) || /^'|(?:dir|root|folder|path|base)$/i.test(name)
}

const endsWithPath = (code: string): boolean => /\bPath\([^()]*(?:\([^()]*\)[^()]*)*\)(?:\.\w+(?:\(\))?)*$/.test(code)

const SQL = /(?:\.(?:execute|executescript|executemany)|(?<!\w)read_sql\w*)\s*\(/g

function findSql(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const isForeign = listCalls(flow, code, SQL).some(
    ([statement = '']) => evaluate(flow, scope, statement).origins.size > 0,
  )
  return isForeign ? 'executes SQL statements of the submission' : undefined
}

const REGULAR = /(?<!\w)re\.(?:compile|search|match|fullmatch|findall|finditer|split|subn?)\s*\(/g
const WILDCARD = /(?<!\w)fnmatch(?:case)?\s*\(/g
const SCHEMA = /(?<!\w)(?:jsonschema\.)?(?:validate|Draft\w*Validator)\s*\(/g

/** A pattern or a schema of the submission can accept everything. */
function findPattern(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const isForeign = (argument = ''): boolean => {
    const given = argument.replace(/^\w+\s*=(?!=)/, '')
    return !/\bescape\(/.test(given) && listOrigins(flow, scope, given).length > 0
  }
  const isPattern =
    listCalls(flow, code, REGULAR).some(([pattern]) => isForeign(pattern)) ||
    listCalls(flow, code, WILDCARD).some(([, pattern]) => isForeign(pattern))
  if (isPattern) return 'uses a text of the submission as a pattern'
  const isSchema = listCalls(flow, code, SCHEMA).some((given) => isForeign(given.at(given.length > 1 ? 1 : 0)))
  return isSchema && /schema|Validator/i.test(code) ? 'uses a schema of the submission' : undefined
}

const COMPARED = 'compares files of the submission with each other'
const PAIR =
  /(?<!\w)(?:assert(?:Almost|Dict|List|Set|Tuple|Sequence|Count|MultiLine)?Equals?|assert_(?:frame|series|array|almost)_equal|assert_allclose|allclose|array_equal|isclose|SequenceMatcher)\s*\(/g
const DIFFERENCE = /(?<!\w)f?abs\s*\(/g
const FILES = /\b(?:filecmp\.)?cmp\s*\(/g

function findComparison(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const areForeign = ([one = '', other = '']: readonly string[]): boolean => {
    const [ones, others] = [listOrigins(flow, scope, one), listOrigins(flow, scope, other)]
    return ones.length > 0 && others.length > 0 && !ones.some((origin) => others.includes(origin))
  }
  const areForeignFiles = (paths: readonly string[]): boolean =>
    paths.slice(0, 2).every((path) => isSubmittedPath(flow, scope, path))
  const isComparing =
    listEquations(flow, code).some(areForeign) ||
    listCalls(flow, code, PAIR).some(areForeign) ||
    listCalls(flow, code, DIFFERENCE).some(([difference = '']) => areForeign(splitDifference(difference))) ||
    listCalls(flow, code, FILES).some(areForeignFiles)
  return isComparing ? COMPARED : undefined
}

/** Splits a difference at its first minus that is in no bracket. */
function splitDifference(code: string): string[] {
  const isMinus = (at: number): boolean => code[at] === '-' && /[\w)\]'] ?$/.test(code.slice(0, at))
  const minus = outsideBrackets(code).find(isMinus)
  return minus === undefined ? [] : [code.slice(0, minus), code.slice(minus + 1)]
}

/** Lists the operands of `==` and `!=`. */
function* listEquations(flow: PythonFlow, code: string): Generator<[string, string]> {
  for (const { 0: operator, index } of code.matchAll(/[=!]=/g)) {
    spend(flow, code.length)
    yield operandsBeside(code, index, operator.length)
  }
}

function listOrigins(flow: PythonFlow, scope: PythonScope, operand: string): string[] {
  const { origins, numbers } = evaluate(flow, scope, operand)
  return [...origins, ...numbers].filter((origin) => origin !== UNKNOWN_ORIGIN)
}

function isSubmittedPath(flow: PythonFlow, scope: PythonScope, path: string): boolean {
  const { texts, isTest } = evaluate(flow, scope, path)
  const absolute = [...texts].filter((text) => text.startsWith('/'))
  return !isTest && texts.size > 0 && (absolute.length === 0 || absolute.some(flow.isSubmitted))
}
