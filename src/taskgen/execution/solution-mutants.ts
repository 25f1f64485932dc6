/** Replaces the lines `from` to `to` (exclusive). */
type Mutation = { from: number; to: number; replacement: string[] }

const LINE_LENGTH_MAX = 400

/** Lists mutations of added lines. Each alters one line, at most one per line, or empties a conditional block. */
export function listMutations(lines: readonly string[], language: string): Mutation[] {
  const syntax = SYNTAXES[language]
  if (!syntax) return []
  return lines.flatMap((line, at) => {
    if (line.length > LINE_LENGTH_MAX || /"""|'''/.test(line)) return []
    const code = maskText(line, syntax)
    const block = mutateBlock(lines, at, syntax)
    const altered = OPERATORS.map((operate) => operate(line, code, syntax)).filter((each) => each !== undefined)
    const mutations = altered.map((alteredLine) => ({ from: at, to: at + 1, replacement: [alteredLine] }))
    // Consecutive lines use different operators, so that few mutations show many kinds.
    const chosen = mutations[at % Math.max(1, mutations.length)]
    return [...(block ? [block] : []), ...(chosen ? [chosen] : [])]
  })
}

/** Syntax of one language, as far as mutations need it. */
type MutableSyntax = {
  comment: RegExp
  /** A line that opens a conditional block: its parts before, in and after the condition. */
  condition: RegExp
  negate(condition: string): string
  /** Statement that replaces the content of an emptied block. Null where a block may be empty. */
  emptyBlock: string | null
  /** Value that replaces a returned value. Null where the value must have the right type. */
  emptyValue: string | null
}

const BRACE_SYNTAX = { comment: /\/\/.*$/, emptyBlock: null }

const javascript: MutableSyntax = {
  ...BRACE_SYNTAX,
  condition:
    /^(?<before>\s*(?:\} else )?if \()(?<condition>.+)(?<after>\) (?:\{|return\b.*|throw\b.*|continue|break))$/,
  negate: (condition) => `!(${condition})`,
  emptyValue: 'undefined',
}

const SYNTAXES: Record<string, MutableSyntax> = {
  python: {
    comment: /#.*$/,
    condition: /^(?<before>\s*(?:if|elif) )(?<condition>.+)(?<after>:)$/,
    negate: (condition) => `not (${condition})`,
    emptyBlock: 'pass',
    emptyValue: 'None',
  },
  javascript,
  typescript: javascript,
  go: {
    ...BRACE_SYNTAX,
    condition: /^(?<before>\s*(?:\} else )?if (?:.+; )?)(?<condition>[^;]+)(?<after> \{)$/,
    negate: (condition) => `!(${condition})`,
    emptyValue: null,
  },
}

/** Blanks out strings and comments without moving anything. */
const maskText = (line: string, { comment }: MutableSyntax): string =>
  line
    .replaceAll(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`/g, (text) => ' '.repeat(text.length))
    .replace(comment, (text) => ' '.repeat(text.length))

/** Returns the altered line, or undefined if the operator does not apply. `code` is the line without strings and comments. */
type MutationOperator = (line: string, code: string, syntax: MutableSyntax) => string | undefined

const COMPARISONS: Record<string, string> = {
  '<=': '<',
  '<': '<=',
  '>=': '>',
  '>': '>=',
  '==': '!=',
  '!=': '==',
  '===': '!==',
  '!==': '===',
}

const changeComparison: MutationOperator = (line, code) => {
  const match = /(?<= )(?:[<>]=?|[!=]==?)(?= )/.exec(code)
  return match ? replaceAt(line, match, COMPARISONS[match[0]] ?? match[0]) : undefined
}

const CONSTANTS: Record<string, string> = { True: 'False', False: 'True', true: 'false', false: 'true' }

/** A Go statement that returns an error. The other returned values are meaningless. */
const RETURNS_ERROR = /^\s*return .*, *(?:err|fmt\.Errorf\(.*\)|errors\.New\(.*\)|Err\w+)$/

const changeConstant: MutationOperator = (line, code) => {
  if (RETURNS_ERROR.test(line)) return undefined
  const match = /(?<![\w.])(?:\d{1,9}|True|False|true|false)(?![\w.])/.exec(code)
  return match ? replaceAt(line, match, CONSTANTS[match[0]] ?? String(Number(match[0]) + 1)) : undefined
}

const negateCondition: MutationOperator = (line, _, { condition: pattern, negate }) => {
  const { before, condition, after } = pattern.exec(line)?.groups ?? {}
  return condition === undefined ? undefined : `${before}${negate(condition)}${after}`
}

const dropReturnValue: MutationOperator = (line, code, { emptyValue }) => {
  const match = /^(\s*return )\S.*$/.exec(line)
  const isOpen = (code.match(/[([{]/g)?.length ?? 0) !== (code.match(/[)\]}]/g)?.length ?? 0)
  return match && emptyValue !== null && !isOpen && !line.trim().endsWith(emptyValue)
    ? `${match[1]}${emptyValue}`
    : undefined
}

const OPERATORS: readonly MutationOperator[] = [changeComparison, changeConstant, negateCondition, dropReturnValue]

const replaceAt = (line: string, { index, 0: found }: RegExpExecArray, text: string): string =>
  line.slice(0, index) + text + line.slice(index + found.length)

const measureIndent = (line: string): number => line.length - line.trimStart().length

/** Empties the conditional block that a line opens. Returns undefined if it opens none. */
function mutateBlock(lines: readonly string[], at: number, syntax: MutableSyntax): Mutation | undefined {
  const head = lines[at] ?? ''
  if (!syntax.condition.test(head)) return undefined
  const rest = lines.slice(at + 1)
  const end = rest.findIndex((line) => line.trim() !== '' && measureIndent(line) <= measureIndent(head))
  const length = end < 0 ? rest.length : end
  const [first] = rest
  if (length === 0 || first === undefined) return undefined
  const filler = syntax.emptyBlock === null ? [] : [first.slice(0, measureIndent(first)) + syntax.emptyBlock]
  return { from: at + 1, to: at + 1 + length, replacement: filler }
}
