/** Words that begin a declaration of types only. */
const DECLARATION = /^\s*(?:export\s+)?(?:declare\s|(?:declare\s+)?(?:type\s+[\w$]+\s*[<=]|interface\s+[\w$]+))/
const INTERFACE = /^\s*(?:export\s+)?(?:declare\s+)?interface\s/
const CONTINUES_BELOW = /(?:[=|&?:,]|=>|\b(?:extends|keyof|typeof|infer))\s*$/
const CONTINUES_ABOVE = /^\s*(?:[|&?:.=]|extends\b)/
const STRINGS_AND_COMMENTS = /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|\/\/.*$|\/\*.*?\*\//g

/** Maximum length of a line that is read. Longer lines are generated code. */
const LINE_LENGTH_MAX = 1000

/**
 * Returns for each line of a TypeScript file, or of a piece of one, whether it belongs to a declaration of a type or an
 * interface. Takes linear time.
 */
export function listTypeLines(lines: readonly string[]): boolean[] {
  const code = lines.map((line) => (line.length > LINE_LENGTH_MAX ? '' : line.replaceAll(STRINGS_AND_COMMENTS, ' ')))
  const areTypes = lines.map(() => false)
  for (let at = 0; at < code.length; at += 1) {
    if (!DECLARATION.test(code[at] ?? '')) continue
    const end = findDeclarationEnd(code, at)
    areTypes.fill(true, at, end + 1)
    at = end
  }
  return areTypes
}

/** Returns the index of the last line of a declaration. One without an end in this piece reaches the end of the piece. */
function findDeclarationEnd(code: readonly string[], from: number): number {
  const isInterface = INTERFACE.test(code[from] ?? '')
  let depth = 0
  let hasBody = false
  for (let at = from; at < code.length; at += 1) {
    const line = code[at] ?? ''
    depth += measureDepth(line)
    hasBody ||= line.includes('{')
    const isOpen = isInterface ? !hasBody : CONTINUES_BELOW.test(line) || CONTINUES_ABOVE.test(code[at + 1] ?? '')
    if (depth <= 0 && !isOpen) return at
  }
  return code.length - 1
}

const measureDepth = (line: string): number =>
  [...line.replaceAll('=>', '')].reduce((depth, character) => depth + bracketChange(character, '<>'), 0)

/** Returns 1 for an opening bracket, and -1 for a closing one. */
function bracketChange(character: string, others = ''): number {
  const at = `()[]{}${others}`.indexOf(character)
  if (at < 0) return 0
  return at % 2 === 0 ? 1 : -1
}

/** Removes type arguments, assertions, and the types of variables, parameters and results. Strings are already removed. */
export function removeTypes(code: string): string {
  const text = code
    .replaceAll(/\s+/g, ' ')
    .trim()
    .replaceAll('=>', ARROW)
    .replaceAll(/ (?:as|satisfies) const\b/g, '')
  return removeAnnotations(removeTypeArguments(text)).replaceAll(/ +/g, ' ')
}

/** Stands for `=>`, which has no bracket. */
const ARROW = '\u21d2'
/** Type arguments directly after a name, without others inside. Comparisons have spaces around them. */
const TYPE_ARGUMENTS = /(?<=[\w$])<(?![\s=])(?:(?!&&|\|\|)[^<>;!+*/%]){1,500}>/g
const NESTING_MAX = 10

function removeTypeArguments(text: string): string {
  let code = text
  for (let nested = 0; nested < NESTING_MAX; nested += 1) code = code.replaceAll(TYPE_ARGUMENTS, '')
  return code
}

/** Bounds the search for the end of a type, so that many openings cost little time. */
const TYPE_LENGTH_MAX = 500
const OPTIONAL_PARAMETER = /^(?:\.{3})?[\w$]+\?\s*:/

function removeAnnotations(text: string): string {
  // A piece that begins with an optional parameter begins inside of a parameter list.
  const brackets: string[] = OPTIONAL_PARAMETER.test(text) ? ['('] : []
  const output: string[] = []
  for (let at = 0; at < text.length; ) {
    const type = findTypeStart(text, at, brackets.at(-1))
    if (type === undefined) {
      trackBrackets(brackets, text[at] ?? '')
      output.push(text[at] ?? '')
      at += 1
    } else {
      if (output.at(-1) === '?') output.pop()
      at = findTypeEnd(text, type)
    }
  }
  return output.join('')
}

function trackBrackets(open: string[], character: string): void {
  const change = bracketChange(character)
  if (change > 0) open.push(character)
  if (change < 0) open.pop()
}

const ASSERTION = /^ (?:as|satisfies) (?=[\w$([{])/
const VARIABLE = /(?:^|[^\w$])(?:const|let|var) [\w$]+$/
const OPEN_TERNARY = / \? [^:;,]*$/

/** Returns the index of a type if an annotation or assertion begins here. Colons of objects and ternaries are code. */
function findTypeStart(text: string, at: number, innermost: string | undefined): number | undefined {
  const assertion = text[at] === ' ' ? ASSERTION.exec(text.slice(at, at + 12)) : null
  if (assertion) return at + assertion[0].length
  if (text[at] !== ':') return undefined
  const before = text.slice(Math.max(0, at - TYPE_LENGTH_MAX), at)
  if (OPEN_TERNARY.test(before)) return undefined
  const isParameter = innermost === '(' && /[\w$?\]}]$/.test(before)
  const isVariable = innermost === undefined && VARIABLE.test(before)
  return isParameter || isVariable || before.endsWith(')') ? at + 1 : undefined
}

/** Returns the index of the separator, value, body or bracket that follows a type. */
function findTypeEnd(text: string, from: number): number {
  const limit = Math.min(text.length, from + TYPE_LENGTH_MAX)
  const isFunction = /^ ?\(/.test(text.slice(from, from + 2))
  const ends = isFunction ? /[,;)\]}=]/ : /[,;)\]}=\u21d2]/
  let depth = 0
  for (let at = from; at < limit; at += 1) {
    const character = text[at] ?? ''
    if (depth === 0 && (ends.test(character) || isBody(text, at, from))) return at
    depth += bracketChange(character)
  }
  return limit
}

/** Returns true for the bracket that opens a function body after the type of its result. */
const isBody = (text: string, at: number, from: number): boolean =>
  text[at] === '{' && /[\w$\])}] ?$/.test(text.slice(Math.max(from, at - 2), at))
