/** Kind of a line. `value`: a multi-line string that is not documentation. `other`: documentation, types and the like. */
export type LineKind = 'code' | 'value' | 'other'

/**
 * Classifies the lines, with their signs, of a piece of a Python file. A piece that begins inside of documentation is
 * recognised by its prose.
 */
export function classifyLines(lines: readonly string[]): LineKind[] {
  const firstOpening = lines.findIndex((line) => readQuotes(line, null) !== null)
  const beforeOpening = lines.slice(0, firstOpening === -1 ? lines.length : firstOpening)
  let open: OpenString = beforeOpening.some(isProse) ? 'unknown' : null
  let isValue = false
  return lines.map((line, at) => {
    const before = open
    open = readQuotes(line, before)
    if (before === null && open !== null) isValue = !STARTS_STRING.test(line) || CONTINUES.test(lines[at - 1] ?? '')
    if (before === null && open === null) return 'code'
    return isValue ? 'value' : 'other'
  })
}

/** Matches a line, with its sign, that begins with a multi-line string. */
const STARTS_STRING = /^.\s*[rRuUbB]{0,2}(?:"""|''')/
/** Matches the end of a line after which a string is a value. */
const CONTINUES = /[([{,=+%\\]\s*$/

/** Quotes of the multi-line string that a position is in. `unknown`: the string begins above the piece. */
type OpenString = '"""' | "'''" | 'unknown' | null

const QUOTES = /"""|'''/g

/** Returns the string that is open after a line. Other quotes in a string are text. */
function readQuotes(line: string, before: OpenString): OpenString {
  if (before === 'unknown') return readQuotes(line, null) === null ? before : null
  const all = [...line.matchAll(QUOTES)].map(([quotes]) => (quotes === '"""' ? quotes : "'''"))
  return all.reduce<OpenString>((open, quotes) => toggleString(open, quotes), before)
}

function toggleString(open: OpenString, quotes: OpenString): OpenString {
  if (open === null) return quotes
  return open === quotes ? null : open
}

const KEYWORDS = new Set(
  'and as assert async await break case class continue def del elif else except exec False finally for from global if import in is lambda match None nonlocal not or pass print raise return True try type while with yield'.split(
    ' ',
  ),
)
const STRINGS_AND_COMMENTS = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|#.*$/g
const MARKUP = /``|^\s*(?:\.\. |:\w+[^:]*:(?:\s|$))/

/** Returns true for a line that cannot be Python: two names without an operator between them, or markup. */
function isProse(line: string): boolean {
  // A string on one line is documentation of the code around it.
  if (readQuotes(line, null) === null && line.match(QUOTES)) return false
  const text = line.slice(1).replaceAll(STRINGS_AND_COMMENTS, '""')
  if (MARKUP.test(text)) return true
  const words = text.trim().split(/\s+/)
  const isName = (word: string | undefined) => word !== undefined && /^[A-Za-z_]\w*$/.test(word) && !KEYWORDS.has(word)
  return words.some((word, at) => isName(word) && isName(words[at + 1]))
}

const DEFINITION = /^(?:async\s+)?def\b/
/** Lines of a definition that begins above: parameters with types, or its end. */
const PARAMETERS = /^(?:\*{0,2}\w+\s*:|\)).*[,):]$/

/** Removes the types of parameters and results from the code of a definition, or of a part of one. */
export function removeAnnotations(code: string): string {
  const text = code.replaceAll(/\s+/g, ' ').trim()
  if (!DEFINITION.test(text) && !PARAMETERS.test(text)) return code
  let depth = DEFINITION.test(text) ? 0 : 1
  let output = ''
  let recent = ''
  for (let at = 0; at < text.length; at += 1) {
    if (startsType(text, at, depth) && !LAMBDA.test(recent)) at = findTypeEnd(text, at + 1, depth)
    const character = text[at] ?? ''
    depth += depthChange(character)
    output += character
    recent = (recent + character).slice(-LAMBDA_LENGTH_MAX)
  }
  return output
}

const LAMBDA = /\blambda\b[^,]*$/
/** Maximum distance of a colon from its `lambda`, so that many colons cost little time. */
const LAMBDA_LENGTH_MAX = 200

const startsType = (text: string, at: number, depth: number): boolean =>
  (depth === 1 && text[at] === ':') || (depth === 0 && text.startsWith('->', at))

/** Returns the index of the comma, default value, bracket or final colon that follows a type. */
function findTypeEnd(text: string, from: number, depth: number): number {
  const ends = depth === 0 ? [':'] : [',', '=', ')']
  let nested = 0
  for (let at = from; at < text.length; at += 1) {
    const character = text[at] ?? ''
    if (nested === 0 && ends.includes(character)) return at
    nested += depthChange(character)
  }
  return text.length
}

function depthChange(character: string): number {
  if (['(', '[', '{'].includes(character)) return 1
  return [')', ']', '}'].includes(character) ? -1 : 0
}
