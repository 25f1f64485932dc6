type AwkToken = { kind: 'text' | 'regex' | 'name' | 'other'; text: string }

/** Variables of awk that are regular expressions. */
const SEPARATORS = new Set(['FS', 'RS', 'FPAT'])
/** Position of the regular expression among the arguments of a function. */
const PATTERN_ARGUMENT: Readonly<Record<string, number>> = {
  match: 1,
  sub: 0,
  gsub: 0,
  gensub: 0,
  split: 2,
  patsplit: 2,
}

/**
 * Returns true if a program of awk uses a regular expression that is not written in it, or changes the list of its files.
 * A computed expression may come from the submission, because awk reads fields from files. `constants`: variables that the
 * script sets before the program runs.
 */
export function hasComputedPattern(program: string, constants: readonly string[]): boolean {
  if (program.length > PROGRAM_MAX) return true
  const tokens = readTokens(program)
  const fixed = constants.filter((name) => !isAssigned(tokens, name))
  return tokens.some(({ kind, text }, at) => {
    if (kind === 'name')
      return text === 'ARGV' || hasComputedSeparator(tokens, at, fixed) || hasComputedArgument(tokens, at, fixed)
    return kind === 'other' && text === '~' && !isFixed(tokens, at + 1, fixed)
  })
}

/** Returns true if a program of awk redirects the output of `print` or `printf`, which writes a file. */
export function hasOutputRedirection(program: string): boolean {
  if (program.length > PROGRAM_MAX) return true
  const tokens = readTokens(program)
  return tokens.some(({ kind, text }, at) => kind === 'name' && /^printf?$/.test(text) && isRedirected(tokens, at + 1))
}

/** Returns true if a greater-than sign outside of brackets precedes the end of a statement. */
function isRedirected(tokens: readonly AwkToken[], start: number): boolean {
  let depth = 0
  for (let at = start; at < tokens.length; at += 1) {
    const text = operatorAt(tokens, at)
    depth += NESTING[text] ?? 0
    if (depth <= 0 && text.startsWith('>')) return true
    const isLineEnd = text === '\n' && depth <= 0 && !LINE_CONTINUES.test(operatorAt(tokens, at - 1))
    if (isLineEnd || text === ';' || text === '}') return false
  }
  return false
}

/** Operators after which a statement continues in the next line. */
const LINE_CONTINUES = /^(?:[,?:\\]|&&|\|\|)$/

/** Maximum length of a program, which bounds the time of the check. Longer programs count as unsafe. */
const PROGRAM_MAX = 10_000

const hasComputedSeparator = (tokens: readonly AwkToken[], at: number, fixed: readonly string[]): boolean =>
  SEPARATORS.has(tokens[at]?.text ?? '') && tokens[at + 1]?.text === '=' && !isFixed(tokens, at + 2, fixed)

function hasComputedArgument(tokens: readonly AwkToken[], at: number, fixed: readonly string[]): boolean {
  const position = PATTERN_ARGUMENT[tokens[at]?.text ?? '']
  if (position === undefined || tokens[at + 1]?.text !== '(') return false
  const start = findArgument(tokens, at + 2, position)
  return start !== undefined && !isFixed(tokens, start, fixed)
}

/** The lookahead matches a bracket expression in one way only. With several ways the search would take exponential time. */
const REGEX = /^\/(?:\\[\s\S]|(?=(\[\^?\]?(?:\\[\s\S]|\[:\w+:\]|[^\]\\\n])*\]))\1|[^/\\\n[])+\//
const TOKEN = /^(?:[ \t]+|\\\r?\n|#[^\n]*|\d[\w.]*|[<>=!+\-*/%^]=|&&|\|\||\+\+|--|[\s\S])/
/** Tokens after which a slash is a division, not the start of a regular expression. */
const VALUE_END = /^(?:\d.*|[)\]]|\+\+|--)$/
const KEYWORD = /^(?:if|else|while|for|do|return|print|printf|in|exit|case)$/

function readTokens(program: string): AwkToken[] {
  const tokens: AwkToken[] = []
  for (let rest = program; rest !== ''; ) {
    const token = readToken(rest, tokens.at(-1))
    if (!/^(?:[ \t]+|\\\r?\n|#.*)$/.test(token.text)) tokens.push(token)
    rest = rest.slice(token.text.length)
  }
  return tokens
}

function readToken(rest: string, last: AwkToken | undefined): AwkToken {
  const [text] = /^"(?:\\[\s\S]|[^"\\])*"?/.exec(rest) ?? []
  if (text !== undefined) return { kind: 'text', text }
  const [name] = /^[A-Za-z_]\w*/.exec(rest) ?? []
  if (name !== undefined) return { kind: 'name', text: name }
  const [regex] = (isValue(last) ? null : REGEX.exec(rest)) ?? []
  if (regex !== undefined) return { kind: 'regex', text: regex }
  const [other = ''] = TOKEN.exec(rest) ?? []
  return { kind: 'other', text: other }
}

const isValue = (token: AwkToken | undefined): boolean =>
  token !== undefined &&
  (token.kind === 'name' ? !KEYWORD.test(token.text) : token.kind !== 'other' || VALUE_END.test(token.text))

const NESTING: Readonly<Record<string, number>> = { '(': 1, '[': 1, ')': -1, ']': -1 }

/** Returns the token index of an argument of a call. Undefined if the call has fewer arguments. */
function findArgument(tokens: readonly AwkToken[], first: number, position: number): number | undefined {
  let depth = 0
  let commas = 0
  for (let at = first; depth >= 0 && at < tokens.length; at += 1) {
    if (commas === position) return at
    const text = operatorAt(tokens, at)
    depth += NESTING[text] ?? 0
    if (text === ',' && depth === 0) commas += 1
  }
  return undefined
}

/** Returns the text of an operator or a bracket, and an empty text for names and constants. */
const operatorAt = (tokens: readonly AwkToken[], at: number): string =>
  tokens[at]?.kind === 'other' ? tokens[at].text : ''

/** Tokens that end an operand. */
const OPERAND_END = /^(?:[;{}\n,?:)\]]|&&|\|\||[=!]=)$/

/** Returns true if the operand at a token index is one text, one regular expression or one constant. */
function isFixed(tokens: readonly AwkToken[], at: number, constants: readonly string[]): boolean {
  const [first, next] = tokens.slice(at, at + 2)
  const isLast = next === undefined || (next.kind === 'other' && OPERAND_END.test(next.text))
  const isWritten = first?.kind === 'text' || first?.kind === 'regex'
  return isLast && (isWritten || (first?.kind === 'name' && constants.includes(first.text)))
}

/** Returns true if a program may change a variable: by an assignment operator, in a call or in a loop. */
const isAssigned = (tokens: readonly AwkToken[], name: string): boolean =>
  tokens.some(({ kind, text }, at) => {
    const [before = '', after = ''] = [tokens[at - 1]?.text, tokens[at + 1]?.text]
    const isChanged = /^(?:[-+*/%^]?=|\+\+|--|in|\[)$/.test(after) || /^(?:[(,]|\+\+|--)$/.test(before)
    return kind === 'name' && text === name && isChanged
  })

/**
 * Returns true if a sed script only reads and prints. Only known commands count: `e` starts programs, `w` and `W` write
 * files, and so do the flags of the same names.
 */
export function isReadOnlySedScript(script: string): boolean {
  let rest = script
  for (;;) {
    rest = rest.replace(/^[\s;}]+/, '')
    if (rest === '') return true
    const command = skipAddresses(rest)
    const next = command && skipCommand(command)
    if (next === undefined) return false
    rest = next
  }
}

/** Returns the text after up to two addresses, or undefined if the syntax of an address is not known. */
function skipAddresses(text: string): string | undefined {
  const first = skipAddress(text)
  if (first === undefined) return undefined
  const [comma] = /^\s*,\s*/.exec(first) ?? []
  const rest = comma === undefined ? first : skipAddress(first.slice(comma.length).replace(/^[+~](?=\d)/, ''))
  return rest?.replace(/^[\s!]+/, '')
}

function skipAddress(text: string): string | undefined {
  const [number] = /^(?:\d+(?:~\d+)?|\$)/.exec(text) ?? []
  if (number !== undefined) return text.slice(number.length)
  if (text.startsWith('/')) return skipDelimited(text.slice(1), '/')?.replace(/^[IM]+/, '')
  if (text.startsWith('\\')) return skipDelimited(text.slice(2), text.charAt(1))?.replace(/^[IM]+/, '')
  return text
}

function skipCommand(text: string): string | undefined {
  const name = text.charAt(0)
  const rest = text.slice(1)
  if (name === '{') return rest
  if (name === 's' || name === 'y') {
    const delimiter = rest.charAt(0)
    const pattern = skipDelimited(rest.slice(1), delimiter)
    const replacement = pattern === undefined ? undefined : skipDelimited(pattern, delimiter)
    return replacement === undefined ? undefined : matchCommandEnd(replacement.replace(/^[gpiIMm\d]+/, ''))
  }
  if (/[qQlL]/.test(name)) return matchCommandEnd(rest.replace(/^ *\d+/, ''))
  if (/[btT:]/.test(name)) return matchCommandEnd(rest.replace(/^ *\w*/, ''))
  return /[pPdDnNgGhHxz=]/.test(name) ? matchCommandEnd(rest) : undefined
}

/** Returns the text if a command may end before it: at a semicolon, a line end or a closing brace. */
const matchCommandEnd = (text: string): string | undefined => (/^\s*(?:[;}\n]|$)/.test(text) ? text : undefined)

/**
 * Returns the text after the next delimiter, or undefined if there is none. Also returns undefined for a delimiter inside
 * brackets, about which implementations disagree.
 */
function skipDelimited(text: string, delimiter: string): string | undefined {
  if (delimiter === '' || delimiter === '\\' || delimiter === '\n') return undefined
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === delimiter) {
      const isInBrackets = /\[[^\]]*$/.test(text.slice(0, at).replaceAll(/\\[\s\S]/g, ''))
      return isInBrackets ? undefined : text.slice(at + 1)
    }
  }
  return undefined
}
