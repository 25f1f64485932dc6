import {
  insideBrackets,
  outsideBrackets,
  type PythonStatement,
  splitArguments,
  splitPython,
} from './python-statements.ts'

/** Contents that a Python value may have. */
type PythonValue = {
  /** Submitted files whose text the value contains. */
  origins: Set<string>
  /** Submitted files from which the value contains a number. */
  numbers: Set<string>
  /** Submitted files of which the value contains a length. */
  sizes: Set<string>
  /** Keys and queries that select the value from these files. */
  parts: Set<string>
  /** Path-like strings that the value is built of. */
  texts: Set<string>
  /** The value names a path of the tests. */
  isTestPath: boolean
  /** The value contains contents of files that do not belong to the submission. */
  isFromTests: boolean
  /** The value is a parameter for which no argument is known. */
  isUnknown: boolean
  /** The value is an opened file or buffer, not a name. */
  isHandle: boolean
}

type PythonFunction = { name: string; params: string[]; scope: PythonScope; result: PythonValue }
export type PythonScope = {
  parent: PythonScope | undefined
  names: Map<string, PythonValue>
  /** Function whose body the scope is. Undefined at the top level. */
  owner: PythonFunction | undefined
}

export type PythonFlow = {
  statements: readonly { scope: PythonScope; code: string }[]
  strings: readonly string[]
  functions: ReadonlyMap<string, PythonFunction>
  /** Functions that read a file that an argument names, with the folders that precede the name. */
  readers: Map<string, Set<string>>
  isSubmitted: (path: string) => boolean
  /** Number of characters that were examined. */
  examined: number
}

/** Thrown for code that takes too long to follow. */
export class UnfollowablePython extends Error {}

/** Maximum length of a statement, because some patterns take time quadratic in it. Longer ones may only assign constants. */
const STATEMENT_LENGTH_MAX = 5_000
const CONSTANTS = /^[\w ]*= ?(?:[\s\d.,'[\]{}():+-]|True|False|None|\de-?\d)*$/
const EXAMINED_MAX = 10_000_000

/** Counts examined characters. Throws UnfollowablePython when a check has taken too many. */
export function countExamined(flow: PythonFlow, characters: number): void {
  flow.examined += characters
  if (flow.examined > EXAMINED_MAX) throw new UnfollowablePython()
}

/** Origin of a field of data that comes from a parameter. */
export const UNKNOWN_ORIGIN = '?'

const ROUNDS_MAX = 20

/**
 * Follows contents of submitted files through the variables and functions of a Python file until nothing new is found.
 * Names that are not resolved, such as imported ones, hold nothing of the submission. Throws UnfollowablePython.
 */
export function readFlow(source: string, submission: readonly string[]): PythonFlow {
  const { strings, ...all } = splitPython(source)
  const statements = all.statements.filter(({ code }) => code.length <= STATEMENT_LENGTH_MAX || !CONSTANTS.test(code))
  if (statements.some(({ code }) => code.length > STATEMENT_LENGTH_MAX)) throw new UnfollowablePython()
  const functions = new Map<string, PythonFunction>()
  const flow: PythonFlow = {
    statements: placeInScopes(statements, functions),
    strings,
    functions,
    readers: new Map(),
    // If no folder of the submission is known, any path may belong to it.
    isSubmitted: (path) =>
      submission.length === 0 ||
      submission.some((folder) => path === folder || path.startsWith(`${folder}/`) || folder.startsWith(`${path}/`)),
    examined: 0,
  }
  for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) if (!runRound(flow)) return flow
  throw new UnfollowablePython()
}

const DEFINITION = /^(?:async )?def (\w+)\s*\(/

function placeInScopes(
  statements: readonly PythonStatement[],
  functions: Map<string, PythonFunction>,
): PythonFlow['statements'] {
  const root: PythonScope = { parent: undefined, names: new Map(), owner: undefined }
  const open: { indent: number; scope: PythonScope }[] = []
  return statements.map(({ indent, code }) => {
    while (open.length > 0 && indent <= (open.at(-1)?.indent ?? -1)) open.pop()
    const scope = open.at(-1)?.scope ?? root
    const [head, name = ''] = DEFINITION.exec(code) ?? []
    if (head === undefined) return { scope, code }
    const params = splitArguments(insideBrackets(code, head.length - 1))
      .map((text) => /^\*{0,2}(\w+)/.exec(text)?.[1] ?? '')
      .filter((param) => !/^(?:self|cls)?$/.test(param))
    const inner: PythonScope = { parent: scope, names: new Map(), owner: undefined }
    const definition = { name, params, scope: inner, result: emptyValue() }
    inner.owner = definition
    functions.set(name, definition)
    open.push({ indent, scope: inner })
    return { scope: inner, code: '' }
  })
}

const emptyValue = (): PythonValue => ({
  origins: new Set(),
  numbers: new Set(),
  sizes: new Set(),
  parts: new Set(),
  texts: new Set(),
  isTestPath: false,
  isFromTests: false,
  isUnknown: false,
  isHandle: false,
})

const SETS = ['origins', 'numbers', 'sizes', 'parts', 'texts'] as const
const FLAGS = ['isTestPath', 'isFromTests', 'isUnknown', 'isHandle'] as const

/** Adds a value to another. Returns true if that changes it. */
function addValue(target: PythonValue, added: PythonValue): boolean {
  const count = (): number =>
    SETS.reduce((sum, name) => sum + target[name].size, FLAGS.filter((name) => target[name]).length)
  const before = count()
  for (const name of SETS) for (const each of added[name]) target[name].add(each)
  for (const name of FLAGS) target[name] ||= added[name]
  return count() !== before
}

/** Follows every statement once. Returns true if something new was found. */
function runRound(flow: PythonFlow): boolean {
  // Every step must run, whatever the others found.
  const changes = flow.statements.flatMap(({ scope, code }) => [
    ...listAssignments(code).flatMap(({ names, value }) => {
      const assigned = evaluate(flow, scope, value)
      return names.map((name) => assign(scope, name, assigned))
    }),
    recordReturn(flow, scope, code),
    passArguments(flow, scope, code),
    recordReader(flow, scope, code),
  ])
  return changes.includes(true)
}

/** Adds a returned value to the result of its function. Returns true if that changes it. */
function recordReturn(flow: PythonFlow, scope: PythonScope, code: string): boolean {
  const returned = /^(?:return|yield(?: from)?)\b(.+)$/.exec(code)?.[1]
  return (
    returned !== undefined && scope.owner !== undefined && addValue(scope.owner.result, evaluate(flow, scope, returned))
  )
}

function assign(scope: PythonScope, name: string, value: PythonValue): boolean {
  const { names } = name.startsWith('self.') ? rootOf(scope) : scope
  const known = names.get(name)
  if (known) return addValue(known, value)
  names.set(name, addTo(emptyValue(), value))
  return true
}

function addTo(target: PythonValue, value: PythonValue): PythonValue {
  addValue(target, value)
  return target
}

const rootOf = (scope: PythonScope): PythonScope => (scope.parent ? rootOf(scope.parent) : scope)

type PythonAssignment = { names: string[]; value: string }

const STATEMENT_WORD = /^(?:assert|return|yield|raise|del|import|from|if|elif|while|class|def|global|nonlocal)\b/
const ITERATION = /\bfor ([\w\s,()*]+?) in (.+?)(?= (?:for|if|async) |$)/g
const GROWTH = /((?:self\.)?\w+)\.(?:append|add|extend|update|insert|setdefault)\((.+)\)$/
const TARGET = /(?<![\w.'])(?:self\.)?[A-Za-z_]\w*/

function listAssignments(code: string): PythonAssignment[] {
  const [, grown, added = ''] = (code.endsWith(')') && GROWTH.exec(code)) || []
  const at = STATEMENT_WORD.test(code) ? -1 : findAssignment(code)
  const [, keyed = '', key] = /^((?:self\.)?\w+)\[(.+)\][^\w\]]*$/.exec(code.slice(0, Math.max(at, 0))) ?? []
  return [
    ...[...code.matchAll(ITERATION)].flatMap(([, names = '', value = '']) =>
      assignEach(listTargets(names), value.slice(0, ([...outsideBrackets(value)].at(-1) ?? -1) + 1)),
    ),
    ...[...code.matchAll(/\b(\w+) ?:= ?([^,)]+)/g)].map(([, name = '', value = '']) => ({ names: [name], value })),
    ...listContexts(code),
    ...(grown === undefined ? [] : [{ names: [grown], value: added }]),
    // A table holds its keys, too.
    ...(key === undefined ? [] : [{ names: [keyed], value: key }]),
    ...(at === -1 ? [] : [{ names: listTargets(code.slice(0, at)), value: code.slice(at + 1) }]),
  ]
}

/** `for a, b in zip(x, y)` assigns entries of x to a, and entries of y to b. */
function assignEach(names: string[], value: string): PythonAssignment[] {
  const [start] = /^(?:(?:enumerate|list|sorted)\()*zip\(/.exec(value) ?? []
  const values = start === undefined ? [] : splitArguments(insideBrackets(value, start.length - 1))
  const entries = names.slice(-values.length)
  return values.length > 1 && names.length >= values.length
    ? entries.map((name, at) => ({ names: [name], value: values[at] ?? '' }))
    : [{ names, value }]
}

/** Lists the names that `with … as name` assigns. */
function listContexts(code: string): PythonAssignment[] {
  const [start] = /^(?:async )?with /.exec(code) ?? []
  if (start === undefined) return []
  return splitArguments(code.slice(start.length)).flatMap((item) => {
    const [, value = '', names] = /^\(?(.+) as ([\w\s,()]+)$/.exec(item) ?? []
    return names === undefined ? [] : [{ names: listTargets(names), value }]
  })
}

/** Returns the first name of each assignment target, such as `a` for `a[0]` and `a: int`. */
const listTargets = (code: string): string[] =>
  code.split(/[,=]/).flatMap((part) => TARGET.exec(part.replaceAll(/[()*]/g, ''))?.[0] ?? [])

/** Returns the index of the last `=` outside of brackets that assigns, or -1. */
function findAssignment(code: string): number {
  const isAssigning = (at: number): boolean =>
    code[at] === '=' && code[at + 1] !== '=' && !/[!<>:=]/.test(code[at - 1] ?? '')
  return [...outsideBrackets(code)].findLast(isAssigning) ?? -1
}

/** Calls of functions that read the file which their first argument names. */
export const FILE_READERS =
  'read_csv|read_json|read_excel|read_parquet|read_table|read_fwf|read_xml|read_html|read_feather|read_orc|imread|loadtxt|genfromtxt|fromfile|memmap|np\\.load|numpy\\.load|loadmat|VideoCapture|read_graphml|load_workbook|ZipFile|(?:ET|ElementTree|etree|minidom)\\.parse|getline|sqlite3\\.connect'
const READ = new RegExp(`(?<!\\w)(?:open|read_text|read_bytes|${FILE_READERS})\\s*\\(`)
/** Modules whose `open` takes the name of a file. The `open` of a path takes no name, that of an archive a member's. */
export const OPENERS = 'io|os|gzip|bz2|lzma|codecs|wave|Image'
const HANDLE = new RegExp(`^(?:(?:${OPENERS})\\.)?open\\s*\\(|^(?:io\\.)?(?:BytesIO|StringIO)\\s*\\(`)
/** Calls whose result is no text. */
const NUMBER = /^(?:int|float|sum|bool|round|abs|len)\s*(?=\()/
/** A key or a query that selects a part of data. */
const PART = /(?:\[|\b(?:get|pop|execute|read_sql\w*|find\w*|select\w*|xpath|nth)\()\s*'(\d+)'/g
const FIELD = /^(?:\[\s*'|\.get\(\s*')/
/** Number of characters after a name in which a field is searched. */
const FIELD_SEARCH_LENGTH = 8
/** Parts of variable names that tests use for their cases and expected values. */
const TEST_NAME = /case|environ|expected|fixture|golden|reference|test|truth|want/
const NAME = /(?<![\w.'])(?:self\.)?[A-Za-z_]\w*(?!\s*=[^=])/g

/** Returns the contents that an expression may have. */
export function evaluate(flow: PythonFlow, scope: PythonScope, expression: string): PythonValue {
  const code = expression.trim()
  countExamined(flow, code.length)
  if (NUMBER.test(code) && isOneCall(code)) return toCount(evaluate(flow, scope, code.replace(NUMBER, '')), code)
  const value = evaluateNames(flow, scope, code)
  for (const text of listStrings(flow, code, /'(\d+)'/g)) addText(value, text)
  if (/\b__file__\b/.test(code)) value.isTestPath = true
  for (const text of listStrings(flow, code, PART)) value.parts.add(text)
  value.isHandle = HANDLE.test(code) ? isOneCall(code) : value.isHandle && /^[\w.]+$/.test(code)
  return isRead(flow, code) ? readFile(flow, value) : value
}

const listStrings = (flow: PythonFlow, code: string, pattern: RegExp): string[] =>
  [...code.matchAll(pattern)].map(([, number = '']) => flow.strings[Number(number)] ?? '')

/** Returns the contents of all names in an expression together. */
function evaluateNames(flow: PythonFlow, scope: PythonScope, code: string): PythonValue {
  const value = emptyValue()
  for (const { 0: name, index } of blankSubscripts(flow, code).matchAll(NAME)) {
    const known = lookUp(flow, scope, name)
    if (known) addValue(value, known)
    const next = code.slice(index + name.length, index + name.length + FIELD_SEARCH_LENGTH)
    if (known?.isUnknown && FIELD.test(next) && isDataName(name)) value.origins.add(UNKNOWN_ORIGIN)
    for (const base of flow.readers.get(name.replace('self.', '')) ?? []) value.texts.add(base)
  }
  return value
}

/** Blanks subscripts. An entry of a list belongs to the list, even if the submission chooses its index. */
function blankSubscripts(flow: PythonFlow, code: string): string {
  let blanked = code
  for (const { 0: start, index } of code.matchAll(/(?<=[\w)\]])(?:\[|\.(?:get|pop|index)\()/g)) {
    const inside = insideBrackets(code, index + start.length - 1)
    const from = index + start.length
    countExamined(flow, inside.length)
    if (!/^'\d+'/.test(inside))
      blanked = blanked.slice(0, from) + ' '.repeat(inside.length) + blanked.slice(from + inside.length)
  }
  return blanked
}

/** Returns true if a variable may hold data of the submission. Constants and expected values of the tests do not. */
const isDataName = (name: string): boolean => name === name.toLowerCase() && !TEST_NAME.test(name)

/** Returns the number or the length that a call such as `int` or `len` returns for a value. */
function toCount({ origins, numbers, sizes, parts, isFromTests }: PythonValue, call: string): PythonValue {
  const counted = { ...emptyValue(), parts, isFromTests }
  return call.startsWith('len')
    ? { ...counted, sizes: origins.union(numbers).union(sizes) }
    : { ...counted, numbers: origins.union(numbers), sizes }
}

const isOneCall = (code: string): boolean => {
  const open = code.indexOf('(')
  return open + insideBrackets(code, open).length + 2 === code.length
}

function addText(value: PythonValue, literal: string): void {
  const text = literal.replace(/^file:(\/[^?]*).*$/, '$1').replaceAll(/\{[^{}]*\}/g, '_')
  if (/^\/tests(?:\/|$)/.test(text)) value.isTestPath = true
  else if (/^[\w./~ -]{1,300}$/.test(text) && /[./]/.test(text)) value.texts.add(text)
}

function lookUp(flow: PythonFlow, scope: PythonScope | undefined, name: string): PythonValue | undefined {
  if (!scope) return flow.functions.get(name.replace('self.', ''))?.result
  const known = scope.names.get(name)
  const isParam = scope.owner?.params.includes(name) === true
  if (!isParam) return known ?? lookUp(flow, scope.parent, name)
  // A parameter that no call sets is a fixture, or not known.
  const given = known ?? flow.functions.get(name)?.result
  return given?.isUnknown === false ? given : addTo({ ...emptyValue(), isUnknown: true }, given ?? emptyValue())
}

const isRead = (flow: PythonFlow, code: string): boolean =>
  READ.test(code) || [...code.matchAll(/(\w+)\s*\(/g)].some(([, name = '']) => flow.readers.has(name))

/** Returns the content of the file that a value names. */
function readFile(flow: PythonFlow, { texts, isTestPath, ...contents }: PythonValue): PythonValue {
  const read = { ...emptyValue(), ...contents }
  const paths = [...texts].filter((text) => text.startsWith('/'))
  const isSubmitted = paths.length === 0 || paths.some(flow.isSubmitted)
  if (isSubmitted && !isTestPath && texts.size > 0) read.origins.add([...texts].toSorted().join(' '))
  read.isFromTests ||= isTestPath || !isSubmitted
  return read
}

/** Records a function that reads a file which depends on a parameter. Returns true if it is new. */
function recordReader(flow: PythonFlow, scope: PythonScope, code: string): boolean {
  const name = scope.owner?.name
  if (name === undefined || !READ.test(code)) return false
  const value = emptyValue()
  for (const [each] of code.matchAll(NAME)) addTo(value, lookUp(flow, scope, each) ?? emptyValue())
  const isParam = [...code.matchAll(NAME)].some(([each]) => dependsOnParam(flow, scope, each))
  if (!isParam || value.isTestPath || flow.readers.has(name)) return false
  flow.readers.set(name, new Set([...value.texts].filter((text) => text.startsWith('/'))))
  return true
}

const dependsOnParam = (flow: PythonFlow, scope: PythonScope, name: string): boolean =>
  scope.owner?.params.includes(name) === true || lookUp(flow, scope, name)?.isUnknown === true

/** Gives parameters the origins of the arguments of every call. Returns true if one is new. */
function passArguments(flow: PythonFlow, scope: PythonScope, code: string): boolean {
  const changes = [...code.matchAll(/(?<!\w)(?:self\.)?(\w+)\s*\(/g)].flatMap(({ 0: call, 1: name = '', index }) => {
    const called = flow.functions.get(name)
    if (!called) return []
    countExamined(flow, code.length)
    const list = splitArguments(insideBrackets(code, index + call.length - 1))
    return list.map((argument, at) => {
      const [stars = ''] = /^\*{0,2}/.exec(argument) ?? []
      if (stars === '') return passArgument(flow, scope, { called, argument, at })
      const params = stars === '*' ? called.params.slice(at) : called.params
      return passEntries(flow, scope, { called, params, entries: argument.slice(stars.length) })
    })
  })
  return changes.includes(true)
}

type PassedArgument = { called: PythonFunction; argument: string; at: number }

function passArgument(flow: PythonFlow, scope: PythonScope, { called, argument, at }: PassedArgument): boolean {
  const [, keyword, given = argument] = /^(\w+)\s*=(?!=)(.*)$/.exec(argument) ?? []
  const param = keyword ?? called.params[at]
  const { origins, numbers, sizes, parts, isFromTests, isHandle } = evaluate(flow, scope, given)
  const isKnown = origins.size + numbers.size + sizes.size > 0 || isFromTests
  if (param === undefined || !isKnown || isHandle) return false
  return assign(called.scope, param, { ...emptyValue(), origins, numbers, sizes, parts, isFromTests })
}

type PassedEntries = { called: PythonFunction; params: readonly string[]; entries: string }

/** Entries of submitted data that are passed with `*` or `**` can set every parameter behind them, or every parameter. */
function passEntries(flow: PythonFlow, scope: PythonScope, { called, params, entries }: PassedEntries): boolean {
  const { origins } = evaluate(flow, scope, entries)
  if (origins.size === 0) return false
  const changes = params.map((param) =>
    assign(called.scope, param, { ...emptyValue(), origins, parts: new Set([param]) }),
  )
  return changes.includes(true)
}
