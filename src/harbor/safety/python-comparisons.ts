import { countExamined, evaluate, type PythonFlow, type PythonScope, UNKNOWN_ORIGIN } from './python-flow.ts'
import { insideBrackets, operandsBeside, outsideBrackets, splitArguments } from './python-statements.ts'

const COMPARED = 'compares files of the submission with each other'
const SELF_COMPARED = 'compares the submission only with itself'

/** Calls that compare their first two arguments for equality. */
const PAIR =
  /(?<!\w)(?:assert(?:Almost|Dict|List|Set|Tuple|Sequence|Count|MultiLine)?Equals?|assert_(?:frame|series|array|almost)_equal|assert_allclose|allclose|array_equal|isclose|SequenceMatcher)\s*\(/g
const DIFFERENCE = /(?<!\w)f?abs\s*\(/g
const FILES = /\b(?:filecmp\.)?cmp\s*\(/g

type Operands = [string, string]

/** Returns a reason if a statement compares two files of the submission. */
export function findComparison(flow: PythonFlow, scope: PythonScope, code: string): string | undefined {
  const haveDifferentOrigins = ([one, other]: Operands): boolean => {
    const [ones, others] = [listOrigins(flow, scope, one), listOrigins(flow, scope, other)]
    return ones.length > 0 && others.length > 0 && !ones.some((origin) => others.includes(origin))
  }
  const areSubmittedFiles = (paths: readonly string[]): boolean =>
    paths.slice(0, 2).every((path) => isSubmittedPath(flow, scope, path))
  const isComparing =
    listEqualities(flow, code).some(haveDifferentOrigins) ||
    listCallArguments(flow, code, FILES).some(areSubmittedFiles)
  return isComparing ? COMPARED : undefined
}

/** Lists the pairs of operands that a statement compares for equality. */
function* listEqualities(flow: PythonFlow, code: string): Generator<Operands> {
  yield* listOperands(flow, code, /[=!]=|\.equals\(/g)
  for (const args of listCallArguments(flow, code, PAIR)) {
    const [one = '', other = ''] = args[0] === 'None' ? args.slice(1) : args
    yield [one, other]
  }
  for (const [difference = ''] of listCallArguments(flow, code, DIFFERENCE)) yield splitDifference(difference)
}

/** Lists the operands beside an operator. */
function* listOperands(flow: PythonFlow, code: string, pattern: RegExp): Generator<Operands> {
  for (const { 0: operator, index } of code.matchAll(pattern)) {
    countExamined(flow, code.length)
    yield operandsBeside(code, index, operator.length)
  }
}

/** Splits a difference at its first minus outside of brackets that follows an operand. */
function splitDifference(code: string): Operands {
  const isMinus = (at: number): boolean => code[at] === '-' && /[\w)\]'] ?$/.test(code.slice(0, at))
  const minus = outsideBrackets(code).find(isMinus)
  return minus === undefined ? ['', ''] : [code.slice(0, minus), code.slice(minus + 1)]
}

function isSubmittedPath(flow: PythonFlow, scope: PythonScope, path: string): boolean {
  const { texts, isTestPath } = evaluate(flow, scope, path)
  const absolute = [...texts].filter((text) => text.startsWith('/'))
  return !isTestPath && texts.size > 0 && (absolute.length === 0 || absolute.some(flow.isSubmitted))
}

/**
 * Returns a reason if tests read files and assert nothing about them but their form: types, keys, lengths, bounds. Three
 * things show that they assert more: a comparison of anything else, a file that must not exist, and a call with two
 * arguments, which may compare them.
 */
export function findFormChecks(flow: PythonFlow, readOthers: () => readonly PythonFlow[]): string | undefined {
  const codes = flow.statements.map(({ code }) => code)
  if (!codes.some((code) => ASSERTION.test(code)) || !codes.some((code) => READING.test(code))) return undefined
  return [flow, ...readOthers()].some(comparesContents) ? undefined : 'checks only the form of the submission'
}

const READING = /\b(?:open|read_text|read_bytes|read|load|loads|read_\w+|DictReader|reader)\(/

const comparesContents = (flow: PythonFlow): boolean =>
  flow.statements.some(
    ({ scope, code }) =>
      ABSENCE.test(code) ||
      listPairs(flow, code).some((pair) => !pair.some((side) => isFormOperand(flow, scope, side))) ||
      listCallArguments(flow, code, CALL).some(
        ([one = '', other = '']) => other !== '' && !/^\w+ ?=/.test(other) && one !== '',
      ),
  )

/** Assertions that a file or a folder must not exist. */
const ABSENCE = /\bnot \S*(?:exists|is_file|is_dir|isfile|isdir)\(|assertFalse\(.*(?:exists|isfile|isdir)\(/
/** Calls, except those that take a second argument which is no value to compare with. */
const CALL =
  /(?<=\w)(?<!\b(?:isinstance|hasattr|getattr|open|round|range|get|pop|join|setdefault|replace|fail|skip|print|min|max|enumerate|split|rsplit|sorted|dict|parametrize|strftime|strptime|def \w+|\.sub))\(/g
const SIZE = /^len\(|\bgetsize\(|\bgetmtime\(|\bst_(?:size|mtime)\b/

function isFormOperand(flow: PythonFlow, scope: PythonScope, code: string): boolean {
  if (FORM.test(code) || SIZE.test(code) || TRIVIAL.test(restoreStrings(flow, code))) return true
  const { sizes, origins, numbers } = evaluate(flow, scope, code)
  return sizes.size > 0 && origins.size + numbers.size === 0
}

/** The submitted contents in a comparison: `parts` of files, or whole `files` if there are no parts. */
type ComparedContents = { files: Set<string>; parts: Set<string> }
type Operand = ComparedContents & { isSize: boolean; isFromTests: boolean }

/**
 * Returns a reason if contents of the submission are compared with each other, and nowhere with a value of the tests: two
 * fields or queries of one file, values that were read together from several files, or lengths. Such a comparison holds
 * for invented contents. `readOthers` reads further files of the tests.
 */
export function findSelfComparison(flow: PythonFlow, readOthers: () => readonly PythonFlow[]): string | undefined {
  const hasAssertions = flow.statements.some(({ code }) => ASSERTION.test(code))
  const selfComparisons = flow.statements
    .filter(({ code }) => (hasAssertions ? DECIDING : /./).test(code))
    .flatMap(({ scope, code }) => [...listSelfComparisons(flow, scope, code)])
  if (selfComparisons.length === 0) return undefined
  const anchors = [flow, ...readOthers()].flatMap((each) =>
    each.statements.flatMap(({ scope, code }) => [...listAnchors(each, scope, code)]),
  )
  const isAnchored = ({ files, parts }: ComparedContents): boolean =>
    anchors.some(
      (anchor) =>
        !files.isDisjointFrom(anchor.files) &&
        (parts.size === 0 || anchor.parts.size === 0 || !parts.isDisjointFrom(anchor.parts)),
    )
  return selfComparisons.every(isAnchored) ? undefined : SELF_COMPARED
}

const ASSERTION = /^assert\b|\.assert[A-Z_]/
/** Statements that decide in a file with assertions. Conditions in it are mostly parts of a calculation. */
const DECIDING =
  /^assert\b|assert[A-Z_]|^return\b|^\w+ ?= ?[^({]+ ?[=!]= ?|^\w+ ?= ?f?abs\(|^(?:missing|extra|unexpected|diff)\w* ?=/

function readOperand(flow: PythonFlow, scope: PythonScope, code: string): Operand {
  const { origins, numbers, sizes, parts, isFromTests } = evaluate(flow, scope, code)
  const files = new Set([...origins, ...numbers, ...sizes])
  files.delete(UNKNOWN_ORIGIN)
  return { files, parts, isSize: origins.size + numbers.size === 0, isFromTests }
}

function* listSelfComparisons(flow: PythonFlow, scope: PythonScope, code: string): Generator<ComparedContents> {
  // `assert a != b` says nothing about the contents, so its operands are not compared.
  const equal = code.startsWith('assert ') ? code.replaceAll('!=', ' , ') : code
  const equalities = [...listEqualities(flow, equal)]
  for (const [left, right] of [...equalities, ...listInclusions(flow, code)]) {
    const [one, other] = [readOperand(flow, scope, left), readOperand(flow, scope, right)]
    const areSubmitted = one.files.size > 0 && other.files.size > 0 && !one.isFromTests && !other.isFromTests
    if (!areSubmitted || restoreStrings(flow, left) === restoreStrings(flow, right)) continue
    // The order, uniqueness or length of a part is a check of its form, which a check of another part complements.
    const isForm = one.isSize || other.isSize || one.parts.symmetricDifference(other.parts).size === 0
    const isEquality = equalities.some((pair) => pair[0] === left && pair[1] === right)
    const parts = isForm || !isEquality ? new Set<string>() : one.parts.union(other.parts)
    yield { files: one.files.union(other.files), parts }
  }
}

/** Lists the pairs of operands of which one must contain the other, or whose entries must all be equal. */
function* listInclusions(flow: PythonFlow, code: string): Generator<Operands> {
  yield* listOperands(flow, code, MEMBERSHIP)
  yield* listOperands(flow, code, INCLUSION)
  if (SET_DIFFERENCE.test(code)) yield* listOperands(flow, code, / [-^] /g)
  // `len(set(x)) == 1`: all entries of x must be equal. The operands differ in spelling, because equal ones are skipped.
  for (const [all = ''] of listCallArguments(flow, code, /\blen\(set\((?=.*\)\) ?== ?1\b)/g))
    yield [all, `sorted(${all})`]
}

/** Operators and methods that look for one value in another. */
const MEMBERSHIP =
  /(?<!\bfor [\w\s,()]{0,80}) (?:not )?in |\.(?:issubset|issuperset|difference|symmetric_difference|isdisjoint)\(/g
const INCLUSION =
  /(?<=\bset\([^()]*\)|\b\w*(?:expected|required|want)\w*) [<>]=? | [<>]=? (?=set\(|\w*(?:expected|required|want))/gi
const SET_DIFFERENCE = /^assert not |^(?:missing|extra|unexpected|diff)\w* ?=/
/** Other operators and methods that compare contents with a value of the tests. */
const RELATION = / [-^&] |\.(?:intersection|startswith|endswith|count|index)\(/g
const SEARCH = /(?<!\w)(?:assert(?:Not)?(?:In|Regex)|(?:re\.)?(?:search|match|fullmatch|findall|finditer))\s*\(/g
/** Values that say nothing about the content. */
const TRIVIAL =
  /^(?:|None|True|False|-?[01](?:\.0)?|\[\]|\{\}|\(\)|(?:set|dict|list|tuple|str)(?:\(\))?|int|float|bool)$/
/** Operands that describe only the form of data, such as its keys or columns. */
const FORM =
  /^type\(|\.keys\(\)|\.(?:columns|fieldnames|dtypes?|shape)\b|\b(?:required|expected)_(?:key|field|col|column|header)s?\b|^(?:key|field|col|column|header)$/i

/** Lists the operands that a statement holds against each other in any way but by bounds. */
function* listPairs(flow: PythonFlow, code: string): Generator<Operands> {
  yield* listEqualities(flow, code)
  for (const operator of [MEMBERSHIP, INCLUSION, RELATION]) yield* listOperands(flow, code, operator)
  for (const [one = '', other = ''] of listCallArguments(flow, code, SEARCH)) yield [one, other]
  yield* listOwnCalls(flow, code)
}

/** Yields the contents of the submission that a statement compares with a value of the tests. */
function* listAnchors(flow: PythonFlow, scope: PythonScope, code: string): Generator<ComparedContents> {
  for (const [left, right] of listPairs(flow, code)) {
    const [one, other] = [readOperand(flow, scope, left), readOperand(flow, scope, right)]
    if (FORM.test(left) || FORM.test(right)) continue
    if (isAnchor(flow, one, other, right)) yield one
    if (isAnchor(flow, other, one, left)) yield other
  }
}

/** Returns true if contents are compared with a value that is not the submission's and not trivial. */
function isAnchor(flow: PythonFlow, content: Operand, other: Operand, code: string): boolean {
  const involvesTests = other.isFromTests || content.isFromTests || other.files.size === 0
  const isMeaningful = content.isFromTests || !TRIVIAL.test(restoreStrings(flow, code))
  return content.files.size > 0 && !content.isSize && involvesTests && isMeaningful
}

/** Replaces the numbers of strings in code by the strings themselves. */
const restoreStrings = (flow: PythonFlow, code: string): string =>
  code.replaceAll(/'(\d+)'/g, (_, number) => flow.strings[Number(number)] ?? '')

/** Lists pairs of arguments in calls of functions that the tests define, because such a function may compare them. */
function* listOwnCalls(flow: PythonFlow, code: string): Generator<Operands> {
  const calls = [...code.matchAll(/(?<![\w.])(\w+)\s*\(/g)].filter(([, name = '']) => flow.functions.has(name))
  for (const [call] of calls)
    for (const args of listCallArguments(flow, code, new RegExp(`(?<![\\w.])${call.replace('(', '\\(')}`, 'g')))
      yield* args.flatMap((one, at) => args.slice(at + 1, at + 1 + PAIRED_MAX).map((other): Operands => [one, other]))
}

/** Maximum number of following arguments with which an argument is paired. Bounds the number of pairs. */
const PAIRED_MAX = 4

/** Yields the arguments of each call in a statement that a pattern finds. The pattern ends with the opening bracket. */
export function* listCallArguments(flow: PythonFlow, code: string, pattern: RegExp): Generator<string[]> {
  for (const { args } of listCalls(flow, code, pattern)) yield args
}

/** A call in a statement. `rest`: the code after it. */
type PythonCall = { args: string[]; rest: string }

/** Yields each call in a statement that a pattern finds. The pattern ends with the opening bracket. */
export function* listCalls(flow: PythonFlow, code: string, pattern: RegExp): Generator<PythonCall> {
  for (const { 0: call, index } of code.matchAll(pattern)) {
    countExamined(flow, code.length)
    const open = index + call.length
    const inside = insideBrackets(code, open - 1)
    yield { args: splitArguments(inside), rest: code.slice(open + inside.length + 1) }
  }
}

/** Lists the submitted files from which an expression has a text or a number. */
export function listOrigins(flow: PythonFlow, scope: PythonScope, expression: string): string[] {
  const { origins, numbers } = evaluate(flow, scope, expression)
  return [...origins, ...numbers].filter((origin) => origin !== UNKNOWN_ORIGIN)
}
