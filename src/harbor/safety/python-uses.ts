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
import { findAcceptedNan } from './python-numbers.ts'
import { insideBrackets, splitArguments } from './python-statements.ts'
import type { TextFile } from './view.ts'

/**
 * Finds a place where the submission decides what Python tests compare, and describes it. Such tests read a file that the
 * submission names; use its SQL statement, pattern, template or schema; put what they expect where it can use it; compare
 * it with itself; or check only its form. `others`: further files of the tests, which may compare the same contents.
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
        findTemplate(flow, scope, code) ??
        findOverwrite(flow, code) ??
        findComparison(flow, scope, code)
      if (reason !== undefined) return reason
    }
    const readOthers = () => others.map((other) => readFlow(other, submission))
    return findSelfComparison(flow, readOthers) ?? findFormChecks(flow, readOthers) ?? findAcceptedNan(flow)
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
/** A function that opens files and that is passed on or gets another name. Its later calls are not followed. */
const PASSED_OPENER = /[(,=[]\s*open\s*(?=[,)\]]|$)/
/** Calls of a function, the first argument, for each entry of the second. */
const MAPPING = /(?<!\w)(?:map|imap|starmap|submit)\s*\(/g
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
  if (isJoined || PASSED_OPENER.test(code)) return NAMED_FILE
  const isMapped = listCallArguments(flow, code, MAPPING).some(
    ([called = '', ...rest]) => takesName(called) && rest.some((argument) => isNamed(argument)),
  )
  if (isMapped) return NAMED_FILE
  const isDivided = code
    .matchAll(DIVISION)
    .some(({ 1: left = '', 2: right = '', index }) => isPath(flow, scope, code.slice(0, index), left) && isNamed(right))
  return isDivided ? NAMED_FILE : undefined
}

/** Returns true if the first argument of a function is the name of a file. */
const takesName = (called: string): boolean => [READING, JOINING].some((pattern) => `${called}(`.search(pattern) !== -1)

/** Returns true if the left side of a slash is a path and not a number. */
function isPath(flow: PythonFlow, scope: PythonScope, before: string, name: string): boolean {
  if (name === ')') return endsWithPath(`${before})`)
  const { origins, texts, isTestPath } = evaluate(flow, scope, name)
  return isTestPath || (origins.size === 0 && texts.size > 0) || /^'|(?:dir|root|folder|path|base)$/i.test(name)
}

const endsWithPath = (code: string): boolean => /\bPath\([^()]*(?:\([^()]*\)[^()]*)*\)(?:\.\w+(?:\(\))?)*$/.test(code)

const SQL = /(?:((?:self\.)?\w+)\.(?:execute|executescript|executemany)|(?<!\w)read_sql\w*)\s*\(/g

/**
 * Statements that put tables beside those of a submitted database, where its views can read them and its own tables can
 * have the same name. Views cannot read temporary tables.
 */
const EXPECTING_SQL =
  /^\s*(?:create\s+(?:table|view)|attach)\b|^\s*(?:insert|replace)\s[\s\w]*?\binto\s+\W?\w*(?:expected|want|truth|golden|reference|answer)/i

/** Finds a SQL statement that the submission can change, or that puts what the tests expect into its database. */
function findSql(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  for (const { 0: call, 1: receiver = '', index } of code.matchAll(SQL)) {
    const [statement = ''] = splitArguments(insideBrackets(code, index + call.length - 1))
    const { origins } = evaluate(flow, scope, receiver)
    // Names that come from a database may be used in its own statements.
    if (!evaluate(flow, scope, statement).origins.isSubsetOf(origins))
      return 'executes SQL statements of the submission'
    const written = flow.strings[Number(/'(\d+)'/.exec(statement)?.[1] ?? -1)] ?? ''
    if (origins.size > 0 && EXPECTING_SQL.test(written)) return 'puts expected values into a database of the submission'
  }
  return undefined
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

/** A call that fills in a template, with the expression that has it. */
const FILLING =
  /([A-Za-z_][\w.]*(?:\([^()]*\)|\[[^\]]*\]|\.\w+)*)\.(?:format|format_map|substitute|safe_substitute)\s*\(/g
const PERCENT = /((?:self\.)?[A-Za-z_]\w*) ?% ?(\{|dict\(|[A-Za-z_]\w*)/g

/** Finds a template of the submission. It can name the expected value, if that is among the values that are filled in. */
function findTemplate(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const isSubmitted = (template: string): boolean => evaluate(flow, scope, template).origins.size > 0
  const isFilled =
    code.matchAll(FILLING).some(([, template = '']) => isSubmitted(template)) ||
    code.matchAll(PERCENT).some(([, template = '', values = '']) => hasKeys(flow, values) && isSubmitted(template))
  return isFilled ? 'fills in a template of the submission' : undefined
}

/** Returns true if values are a dictionary, as far as the code shows. Otherwise a percent sign may calculate a remainder. */
const hasKeys = (flow: PythonFlow, values: string): boolean =>
  !/^\w+$/.test(values) || flow.statements.some(({ code }) => code.includes(`${values}['`))

const SETTING = /(?<![\w.])setattr\s*\(/g

/** Finds an attribute whose name is computed: a name of the submission can replace one with which the tests compare. */
const findOverwrite = (flow: PythonFlow, code: string): string | undefined =>
  listCalls(flow, code, SETTING).some(({ args: [, name = ''] }) => !/^'\d+'$/.test(name))
    ? 'sets an attribute that the submission can name'
    : undefined

/** Returns the path of a file of the submission that stands for an input whose file is not known. */
const toUnknownFile = (submission: readonly string[], name: string): string => `${submission[0] ?? '/app'}/${name}`

/**
 * Rewrites Python code so that its inputs are files whose contents can be followed: arguments, standard input, variables of
 * the environment, and files that objects and short functions read. `scripts`: the shell scripts that may run it.
 */
export function nameInputs(
  { path, text }: Pick<TextFile, 'path' | 'text'>,
  submission: readonly string[],
  scripts: readonly string[],
): string {
  const calls = listScriptCalls(path, scripts)
  const isOwnInput = calls.length > 0 && calls.every(({ input }) => input.startsWith('/tests/'))
  const nameArgument = (at: number): string => {
    const words = new Set(calls.map(({ words }) => words[at - 1] ?? ''))
    const [word = ''] = words.size === 1 ? words : []
    return `'${/^\/[\w./-]+$/.test(word) ? word : toUnknownFile(submission, `argument.${at}`)}'`
  }
  const input = `open('${isOwnInput ? '/tests/input' : toUnknownFile(submission, 'input.txt')}')`
  return withSharedNames(withCases(withMatches(text)))
    .replaceAll(/\bsys\.argv\s*\[\s*(\d+)\s*\]/g, (_, at: string) => nameArgument(Number(at)))
    .replaceAll(/\bsys\.argv\b|\b\w+\.parse_(?:known_)?args\([^()]*\)(?:\[0\])?/g, () => nameArgument(1))
    .replaceAll(/\bsys\.stdin(?:\.buffer)?\b/g, input)
    .replaceAll(/(?<![\w.])input\([^()]*\)/g, `${input}.read()`)
    .replaceAll(VARIABLE, (whole, name: string) =>
      OWN_VARIABLE.test(name) ? whole : `'${toUnknownFile(submission, `${name}.value`)}'`,
    )
    .replaceAll(/\b(?:os\.getcwd\(\)|Path\.cwd\(\))/g, `Path('${submission[0] ?? '/app'}')`)
    .replaceAll(/^([ \t]*)(\w+)\.read\((['"][^'"\n]+['"])\)/gm, '$1$2 = open($3)')
    .replaceAll(/^([ \t]*)(\w+) = lambda ([\w, ]*): (.+)$/gm, '$1def $2($3):\n$1    return $4')
}

/** A variable of the environment without a default value. */
const VARIABLE = /\bos\.(?:environ\[|environ\.get\(|getenv\()\s*['"](\w+)['"]\s*[\])]/g
/** Variables that hold expected values, or name the folder of the tests. */
const OWN_VARIABLE = /TEST|EXPECT|WANT/

/** Lists the calls of a Python file in shell scripts, with the arguments and the input that are written there. */
function listScriptCalls(path: string, scripts: readonly string[]): { words: string[]; input: string }[] {
  const name = /[\w.-]+$/.exec(path)?.[0].replaceAll('.', '\\.') ?? ''
  const call = new RegExp(
    `python[\\d.]*[^\\n;|&]{0,40}/${name}\\b["']?([^\\n;|&<>]{0,500})(?:<\\s*["']?([\\w./-]+))?`,
    'g',
  )
  return scripts.flatMap((script) =>
    [...script.matchAll(call)].map(([, words = '', input = '']) => ({
      words: words.split(/\s+/).flatMap((word) => word.replaceAll(/["']/g, '') || []),
      input,
    })),
  )
}

/** Adds a call of every test with its cases: `@pytest.mark.parametrize('row', ROWS)`. */
function withCases(text: string): string {
  const calls = [...text.matchAll(PARAMETRIZED)].map(([, names = '', values = '', test = '']) => {
    const params = names
      .replaceAll(/['"]/g, '')
      .split(',')
      .map((name) => `${name.trim()}=${values}`)
    return `${test}(${params.join(', ')})`
  })
  return [text, ...calls].join('\n')
}

const PARAMETRIZED =
  /^[ \t]*@pytest\.mark\.parametrize\(\s*[([]?\s*(['"][\w, '"]{1,200}['"]),?\s*[)\]]?\s*,\s*([^\n]{1,300})\)\n(?:[ \t]*@[^\n]{0,300}\n){0,10}[ \t]*(?:async )?def (\w+)/gm

/** Turns each case of a match into a loop that assigns the names of its pattern. */
function withMatches(text: string): string {
  let subject: string | undefined
  return text.replaceAll(MATCH_LINE, (line, indent: string, matched: string | undefined, pattern = '', rest = '') => {
    subject = matched ?? subject
    if (matched !== undefined) return `${indent}if True:`
    const names = [...pattern.replaceAll(/(['"]).*?\1/g, '').matchAll(CAPTURED)].map(([name]) => name)
    return subject === undefined ? line : `${indent}for ${['_', ...names].join(', ')} in ${subject}:${rest}`
  })
}

const MATCH_LINE = /^([ \t]*)(?:match (.{1,200}):[ \t]*(?:#.*)?|case (.{1,300}):([^\n:'"\]}]*))$/gm
const CAPTURED = /(?<![\w.])(?!(?:if|as|or|and|not|in|is|None|True|False|_)\b)[A-Za-z_]\w*(?![\w.(]|\s*=)/g

/** Maximum number of classes, and of global variables, that are followed: the time grows with it. */
const NAMES_MAX = 50

/** Spells attributes of classes and global variables like attributes of `self`, which all functions share. */
function withSharedNames(text: string): string {
  const classes = [...text.matchAll(/^[ \t]*class (\w+)/gm)].map(([, name = '']) => name).slice(0, NAMES_MAX)
  const globals = [...text.matchAll(/^[ \t]+global ([\w, ]+)$/gm)]
    .flatMap(([, names = '']) => names.split(/, */))
    .slice(0, NAMES_MAX)
  const owners = ['cls', ...classes].join('|')
  const attributes = text.replaceAll(new RegExp(`(?<![\\w.'"])(?:${owners})\\.(?=[A-Za-z_])`, 'g'), 'self.')
  const shared = globals.length === 0 ? attributes : attributes.replaceAll(toNamePattern(globals), 'self.$&')
  return declareAttributes(shared)
}

const toNamePattern = (names: readonly string[]): RegExp =>
  new RegExp(`(?<![\\w.'"])(?:${names.join('|')})(?!\\w)`, 'g')

/** Turns assignments in the body of a class into assignments to attributes. */
function declareAttributes(text: string): string {
  let body: ClassBody = NO_CLASS
  const lines = text.split('\n').map((line) => {
    const indent = line.search(/\S/)
    if (indent === -1) return line
    body = enterLine(body, line, indent)
    return body.inner === indent ? line.replace(ATTRIBUTE, '$1self.$2 =') : line
  })
  return lines.join('\n')
}

/** Indentation of a class and of the statements in it. */
type ClassBody = { outer: number; inner?: number }
const NO_CLASS: ClassBody = { outer: Number.POSITIVE_INFINITY }

function enterLine({ outer, inner }: ClassBody, line: string, indent: number): ClassBody {
  if (CLASS.test(line)) return { outer: indent }
  return indent <= outer ? NO_CLASS : { outer, inner: inner ?? indent }
}

const CLASS = /^\s*class \w/
const ATTRIBUTE = /^(\s*)([A-Za-z_]\w*)(?:\s*:[^=\n]{1,100})?\s*=(?!=)/
