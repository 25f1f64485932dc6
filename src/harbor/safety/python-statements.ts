/** Code of a statement, or of the head of a block, without comments. A string is replaced by its number in `strings`, in single quotes. */
export type PythonStatement = { indent: number; code: string }
type PythonSource = { statements: PythonStatement[]; strings: string[] }

const COMPOUND = /^(?:async|class|def|elif|else|except|finally|for|if|try|while|with)\b/
const STRING_START = /([A-Za-z]{0,2})("""|'''|"|')/y
const INDENT = /[ \t]*/y

/**
 * Splits Python into statements and heads of blocks. Brackets, strings and backslashes continue a line; a semicolon or the
 * colon of a compound statement ends a statement. The expressions of an f-string follow its number.
 */
export function splitPython(source: string): PythonSource {
  const strings: string[] = []
  const statements: PythonStatement[] = [{ indent: measureIndent(source, 0), code: '' }]
  let depth = 0
  for (let at = 0; at < source.length; ) {
    const token = readToken(source, at, strings)
    at += token.length
    const last = statements.at(-1) ?? { indent: 0, code: '' }
    const end = depth <= 0 ? readEnd(source, at, { code: last.code, token: token.code }) : undefined
    if (end === undefined) last.code += /^\s$/.test(token.code) ? ' ' : token.code
    else statements.push({ indent: indentAfter(source, at, end, last.indent), code: '' })
    depth += bracketStep(token.code)
  }
  return {
    statements: statements.map(({ indent, code }) => ({ indent, code: code.trim() })).filter(({ code }) => code !== ''),
    strings,
  }
}

const indentAfter = (source: string, at: number, end: StatementEnd, indent: number): number => {
  if (end === 'line') return measureIndent(source, at)
  return end === 'block' ? indent + 1 : indent
}

/** Reads a string, a comment, a continued line or a character. `code` is its replacement in the statement. */
function readToken(source: string, at: number, strings: string[]): { code: string; length: number } {
  const [start, prefix = '', quote = ''] = readOpening(source, at) ?? []
  if (start !== undefined) {
    const close = findStringEnd(source, at + start.length, quote)
    const content = source.slice(at + start.length, close)
    const number = strings.push(content) - 1
    const expressions = /f/i.test(prefix) ? joinExpressions(content) : ''
    return { code: `'${number}'${expressions}`, length: close + quote.length - at }
  }
  if (source[at] === '#') {
    const lineEnd = source.indexOf('\n', at)
    return { code: '', length: (lineEnd === -1 ? source.length : lineEnd) - at }
  }
  return source.startsWith('\\\n', at) ? { code: ' ', length: 2 } : { code: source[at] ?? '', length: 1 }
}

type StatementEnd = 'line' | 'statement' | 'block'

/** Returns what a token outside of brackets ends, if anything. `next` is the index after the token. */
function readEnd(source: string, next: number, { code, token }: { code: string; token: string }) {
  const ends: Partial<Record<string, StatementEnd>> = { '\n': 'line', ';': 'statement' }
  return token === ':' && source[next] !== '=' && isBlockStart(code) ? 'block' : ends[token]
}

const bracketStep = (character: string): number => {
  if (/^[([{]$/.test(character)) return 1
  return /^[)\]}]$/.test(character) ? -1 : 0
}

function measureIndent(source: string, at: number): number {
  INDENT.lastIndex = at
  return INDENT.exec(source)?.[0].length ?? 0
}

function readOpening(source: string, at: number): RegExpExecArray | null {
  if (/\w/.test(source[at - 1] ?? '')) return null
  STRING_START.lastIndex = at
  return STRING_START.exec(source)
}

const isBlockStart = (code: string): boolean => COMPOUND.test(code.trimStart()) && !/\blambda\b[^:]*$/.test(code)

function findStringEnd(source: string, start: number, quote: string): number {
  for (let at = start; at < source.length; at += 1) {
    if (source[at] === '\\') at += 1
    else if (source.startsWith(quote, at)) return at
  }
  return source.length
}

/** Returns the expressions of an f-string as further operands of a sum. Strings in them have no number. */
const joinExpressions = (content: string): string =>
  [...content.replaceAll(/\{\{|\}\}/g, '').matchAll(/\{([^{}]*)\}/g)]
    .map(([, expression = '']) => ` + (${expression.replaceAll(/"[^"]*"|'[^']*'/g, "''").replace(/[!:][^\])]*$/, '')})`)
    .join('')

/** Yields the indexes of characters outside of brackets, up to a closing bracket without an opening one. */
export function* outsideBrackets(code: string): Generator<number> {
  let depth = 0
  for (let at = 0; at < code.length; at += 1) {
    depth += bracketStep(code[at] ?? '')
    if (depth < 0) return
    if (depth === 0) yield at
  }
}

/** Splits code at commas outside of brackets. */
export function splitArguments(code: string): string[] {
  const commas = [...outsideBrackets(code)].filter((at) => code[at] === ',')
  const starts = [0, ...commas.map((at) => at + 1)]
  return starts.map((start, at) => code.slice(start, commas[at]).trim()).filter((part) => part !== '')
}

/** Returns the code inside the brackets that open at an index. */
export function insideBrackets(code: string, open: number): string {
  let depth = 0
  for (let at = open; at < code.length; at += 1) {
    depth += bracketStep(code[at] ?? '')
    if (depth === 0) return code.slice(open + 1, at)
  }
  return code.slice(open + 1)
}

/** Returns the operands beside an operator: up to a bracket that is not closed, a comma, or a keyword. */
export const operandsBeside = (code: string, at: number, length: number): [string, string] => [
  lastOperand(code.slice(0, at)),
  firstOperand(code.slice(at + length)),
]

const KEYWORD = /\b(?:assert|and|or|not|if|else|elif|return|while|in|is|lambda)\b|[=!]=|:=/

function firstOperand(code: string): string {
  let end = 0
  for (const at of outsideBrackets(code)) {
    if (code[at] === ',') break
    end = at + 1
  }
  return code.slice(0, end).split(KEYWORD, 1)[0]?.trim() ?? ''
}

function lastOperand(code: string): string {
  let depth = 0
  let start = code.length
  while (start > 0) {
    depth -= bracketStep(code[start - 1] ?? '')
    if (depth < 0 || (depth === 0 && code[start - 1] === ',')) break
    start -= 1
  }
  return code.slice(start).split(KEYWORD).at(-1)?.trim() ?? ''
}
