import {
  findComparison,
  findFormChecks,
  findSelfComparison,
  listCallArguments,
  listCalls,
  listOrigins,
} from './python-comparisons.ts'
import {
  evaluate,
  FILE_READERS,
  OPENERS,
  type PythonFlow,
  type PythonScope,
  readFlow,
  UnfollowablePython,
} from './python-flow.ts'
import { insideBrackets, splitArguments } from './python-statements.ts'

/**
 * Finds a place where the submission decides what Python tests compare, and describes it. Such tests read a file that the
 * submission names; use its SQL statement, pattern or schema; compare it with itself; or check only its form. `others`:
 * further files of the tests, which may compare the same contents.
 */
export function findSubmittedUse(
  source: string,
  submission: readonly string[],
  others: readonly string[],
): string | undefined {
  try {
    const flow = readFlow(source, submission)
    for (const { scope, code } of flow.statements) {
      const reason =
        findNamedFile(flow, scope, code) ??
        findSql(flow, scope, code) ??
        findPattern(flow, scope, code) ??
        findComparison(flow, scope, code)
      if (reason !== undefined) return reason
    }
    const readOthers = () => others.map((other) => readFlow(other, submission))
    return findSelfComparison(flow, readOthers) ?? findFormChecks(flow, readOthers)
  } catch (error) {
    if (error instanceof UnfollowablePython || error instanceof RangeError) return 'is too long to be followed'
    throw error
  }
}

const NAMED_FILE = 'reads files that the submission can name'

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
  if (listCallArguments(flow, code, READING).some(([file]) => isNamed(file))) return NAMED_FILE
  const isJoined = listCalls(flow, code, JOINING).some(
    ({ args, rest }) => !PATH_PART.test(rest) && args.some((part) => isNamed(part)),
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
  const { origins, texts, isTestPath } = evaluate(flow, scope, name)
  return isTestPath || (origins.size === 0 && texts.size > 0) || /^'|(?:dir|root|folder|path|base)$/i.test(name)
}

const endsWithPath = (code: string): boolean => /\bPath\([^()]*(?:\([^()]*\)[^()]*)*\)(?:\.\w+(?:\(\))?)*$/.test(code)

const SQL = /(?:((?:self\.)?\w+)\.(?:execute|executescript|executemany)|(?<!\w)read_sql\w*)\s*\(/g

/** Finds a SQL statement that the submission can change. Names that come from a database may be used in its own statements. */
function findSql(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const isForeign = code.matchAll(SQL).some(({ 0: call, 1: receiver = '', index }) => {
    const [statement = ''] = splitArguments(insideBrackets(code, index + call.length - 1))
    return !evaluate(flow, scope, statement).origins.isSubsetOf(evaluate(flow, scope, receiver).origins)
  })
  return isForeign ? 'executes SQL statements of the submission' : undefined
}

const REGULAR = /(?<!\w)re\.(?:compile|search|match|fullmatch|findall|finditer|split|subn?)\s*\(/g
const ASSERTED = /(?<!\w)assert(?:Not)?Regex\s*\(/g
const WILDCARD = /(?<!\w)fnmatch(?:case)?\s*\(/g
const SCHEMA = /(?<!\w)(?:jsonschema\.)?(?:validate|Draft\w*Validator)\s*\(/g

/** Finds a pattern or a schema of the submission, which can accept everything. */
function findPattern(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const isForeign = (argument = ''): boolean => {
    const given = argument.replace(/^\w+\s*=(?!=)/, '')
    return !/\bescape\(/.test(given) && listOrigins(flow, scope, given).length > 0
  }
  const isPattern =
    listCallArguments(flow, code, REGULAR).some(([pattern]) => isForeign(pattern)) ||
    listCallArguments(flow, code, WILDCARD).some(([, pattern]) => isForeign(pattern)) ||
    listCallArguments(flow, code, ASSERTED).some(([, pattern]) => isForeign(pattern))
  if (isPattern) return 'uses a text of the submission as a pattern'
  const isSchema = listCallArguments(flow, code, SCHEMA).some(([first, second = first]) => isForeign(second))
  return isSchema && /schema|Validator/i.test(code) ? 'uses a schema of the submission' : undefined
}
