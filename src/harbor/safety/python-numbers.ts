import { listCallArguments } from './python-comparisons.ts'
import { evaluate, type PythonFlow, type PythonScope, UNKNOWN_ORIGIN } from './python-flow.ts'
import { operandsBeside } from './python-statements.ts'

const REASON = 'accepts NaN of the submission as a number within bounds'

/** Code that looks for NaN. */
const NAN_CHECK = /\b(?:isnan|isfinite|isna|isnull|notna|notnull|parse_constant)\b|\bnan\b|\b(\w+) ?!= ?\1\b/i
/** Code that can read NaN from a file. */
const NAN_SOURCE = /\b(?:float|Decimal|json|yaml|toml\w*|csv|np|numpy|pd|pandas|openpyxl|load_workbook|loadtxt)\b/

/**
 * Returns a reason if tests reject a number of the submission only if it exceeds a bound, or take the largest or smallest
 * of several. Every comparison with NaN is false, and `max` and `min` skip it unless it comes first.
 */
export function findAcceptedNan(read: PythonFlow): string | undefined {
  const codes = read.statements.map(({ code }) => code)
  if (codes.some((code) => NAN_CHECK.test(code)) || !codes.some((code) => NAN_SOURCE.test(code))) return undefined
  const flow = { ...read, proven: new Set(read.statements.flatMap((_, at) => listNanProof(read, at))) }
  const extremes = new Set(flow.statements.flatMap(({ scope, code }) => listExtremeNames(flow, scope, code)))
  const isAccepting = flow.statements.some(({ scope, code }, at) => {
    const isRejecting = (NEGATED_CHECK.test(code) || isFollowedByRejection(flow, code, at)) && !/\bif not\b/.test(code)
    return (
      (isRejecting && comparesWithBound(flow, scope, code)) ||
      (PLAIN_CHECK.test(code) && comparesWithExtreme(flow, scope, code, extremes))
    )
  })
  return isAccepting ? REASON : undefined
}

/** Checks that fail if a comparison in them is true, so that NaN passes them. */
const NEGATED_CHECK = /^(?:assert|return) not\b|\bassertFalse\(|\bif not any\(|^assert all\(not\b/
/** Checks that fail if a comparison in them is false, and assignments of such a comparison. */
const PLAIN_CHECK = /^(?:assert|return|if)\b|\bassert[A-Z]|^\w+ ?= ?[^=]*[<>]/
/** Statements that reject the submission. */
const REJECTION =
  /^(?:raise\b|return \(?(?:False|0|None|\[\]|\{\}|'\d+')|(?:pytest|self)\.fail\(|fail\(|(?:sys\.)?exit\((?!0\))|assert False|(?:ok|passed|success|valid|correct|result|match\w*|is_\w+|all_\w+) ?= ?(?:False|0)\b|(?!expected|want|gold)\w*(?:error|fail|fault|issue|mismatch|problem|wrong|bad|violation)\w*(?:\.(?:append|add)\(| ?\+= ?| ?= ?True))/
/** A list that holds the entries beyond a bound, or whether there are any. */
const COLLECTED = /^(\w+) ?= ?(?:\[.* for .* if .*\]|\{.* for .* if .*\}|(?:list|sum|any)\(.* for .*\))$/

/** Returns true if the statement behind a condition rejects the submission, or the entries that it collects must not exist. */
function isFollowedByRejection({ statements }: PythonFlow, code: string, at: number): boolean {
  if (/^(?:el)?if\b/.test(code)) return REJECTION.test(statements[at + 1]?.code ?? '')
  const [, name] = COLLECTED.exec(code) ?? []
  const isRejected = new RegExp(
    `^(?:assert not ${name}\\b|assert (?:len\\(${name}\\)|${name}) ?== ?(?:0|\\[\\])|if ${name}$)`,
  )
  return name !== undefined && statements.some((statement) => isRejected.test(statement.code))
}

/** `proven`: operands, and parts of files, that are compared in a way that NaN does not pass. */
type NumberFlow = PythonFlow & { proven: ReadonlySet<string> }

/** Lists the operands and parts of files that a statement proves not to be NaN: `assert x < 3`, `if not x < 3: raise`. */
function listNanProof(flow: PythonFlow, at: number): string[] {
  const { scope, code } = flow.statements[at] ?? { scope: undefined, code: '' }
  const isProof =
    /^assert (?!not\b)/.test(code) || (/^(?:el)?if not\b/.test(code) && isFollowedByRejection(flow, code, at))
  if (!isProof || !scope || code.search(EXTREME_CALL) !== -1) return []
  const operands = [...code.matchAll(COMPARISON)].flatMap(({ 0: operator, index }) =>
    operandsBeside(code, index, operator.length).flatMap((operand) =>
      operand.replace(/^\(+/, '').split(ORDER_COMPARISON),
    ),
  )
  return operands
    .filter((operand) => !holdsExtreme(flow, operand.trim()))
    .flatMap((operand) => [operand.trim(), ...evaluate(flow, scope, operand).parts])
}

const holdsExtreme = ({ statements }: PythonFlow, name: string): boolean =>
  /^\w+$/.test(name) && statements.some(({ code }) => code.startsWith(`${name} = `) && code.search(EXTREME_CALL) !== -1)

/** Comparisons that are false for NaN. */
const COMPARISON = /(?<![<>=!-])(?:[<>]=?|==)(?![<>=])/g
const ORDER_COMPARISON = /(?<![<>=!-])[<>]=?(?![<>=])/g

/** Returns true if code compares a number of the submission with a bound. */
const comparesWithBound = (flow: NumberFlow, scope: PythonScope, code: string): boolean =>
  code
    .matchAll(ORDER_COMPARISON)
    .flatMap(({ 0: operator, index }) => operandsBeside(code, index, operator.length))
    .some((operand) => mayBeNan(flow, scope, operand))

/** Calls that return the largest or the smallest number. */
const EXTREME_CALL = /(?<![\w.])(?:max|min)\s*\(/g

/** Lists the variables that hold the largest or the smallest number of the submission. */
function listExtremeNames(flow: NumberFlow, scope: PythonScope, code: string): string[] {
  const [, name] = /^(\w+) ?= ?/.exec(code) ?? []
  return name !== undefined && callsExtreme(flow, scope, code, name) ? [name] : []
}

/** Returns true if code takes the largest or the smallest number of the submission. `assigned`: the variable that gets it. */
const callsExtreme = (flow: NumberFlow, scope: PythonScope, code: string, assigned = ''): boolean =>
  listCallArguments(flow, code, EXTREME_CALL).some((args) => {
    // NaN that comes first is the result.
    const skipped = args.length === 2 && /^[\d.e-]+$/.test(args[1] ?? '') ? [] : args
    return skipped.some((argument) => argument !== assigned && mayBeNan(flow, scope, argument))
  })

function comparesWithExtreme(flow: NumberFlow, scope: PythonScope, code: string, names: ReadonlySet<string>): boolean {
  const operands = [...code.matchAll(ORDER_COMPARISON)].flatMap(({ 0: { length }, index }) =>
    operandsBeside(code, index, length),
  )
  return operands.length > 0 && (operands.some((operand) => names.has(operand)) || callsExtreme(flow, scope, code))
}

/** Calls that return whole numbers, or fail for NaN, and usual names of counts. */
const WHOLE_NUMBER =
  /\b(?:len|int|round|count|index|find|ord|getsize|stat|sum|nunique|timestamp|total_seconds|strptime|fromisoformat)\(|\bcounts?\b|_(?:count|idx|index)\b|\.(?:shape|size|ndim|st_\w+|width|height)\b/
/** Files whose contents are whole numbers: pictures, sounds, videos. */
const MEDIA_FILE = /\.(?:png|jpe?g|gif|bmp|webp|tiff?|ppm|pgm|wav|mp[34]|avi|mkv|mov|webm|flac|ogg|pdf)$/i

/** Returns true if an expression may be a number of the submission that is NaN. */
function mayBeNan(flow: NumberFlow, scope: PythonScope, expression: string): boolean {
  if (WHOLE_NUMBER.test(expression) || isWholeNumber(flow, scope, expression)) return false
  const { origins, numbers, parts } = evaluate(flow, scope, expression)
  if (flow.proven.has(expression) || (parts.size > 0 && parts.isSubsetOf(flow.proven))) return false
  return [...origins, ...numbers].some((origin) => origin !== UNKNOWN_ORIGIN && !MEDIA_FILE.test(origin))
}

/** Returns true if every value that a variable is assigned is a whole number. */
function isWholeNumber(flow: PythonFlow, scope: PythonScope, name: string): boolean {
  if (!/^\w+$/.test(name)) return false
  const assignment = new RegExp(`^${name} ?(?:\\+)?= ?(?!=)`)
  const values = flow.statements.filter((each) => each.scope === scope && assignment.test(each.code))
  return values.length > 0 && values.every(({ code }) => WHOLE_NUMBER.test(code) || /= ?-?\d+$/.test(code))
}
