import type { IntroducedNames, NameMeaning } from './introduced-names.ts'

/**
 * Replaces introduced names by the code that they stand for, except in strings. In Go, `fmt.Sprintf` with only `%s` becomes
 * a concatenation, which has the same result if it compiles.
 */
export function expandNames(text: string, names: IntroducedNames): string {
  if (names.meanings.size === 0 && names.language !== 'go') return text
  const lines = text.split('\n').map((line) => expandStatement(line, names) ?? line)
  return expandExpressions(lines.join('\n'), names)
}

/** Maximum length of a line that is expanded. Longer lines are generated code. */
const LINE_LENGTH_MAX = 1000

const STATEMENT =
  /^\s*(?<before>return |(?:(?:const|let|var) )?[\w$.]+(?:, ?[\w$.]+)*\s*:?=\s*)?(?<name>[A-Za-z_$][\w$.]*)\((?<args>[^()]*)\);?$/

/** Replaces a line that calls a function, returns its result or assigns it by the statements of the function. */
function expandStatement(line: string, { meanings, budget }: IntroducedNames): string | undefined {
  if (line.length > LINE_LENGTH_MAX) return undefined
  const { before = '', name = '', args = '' } = STATEMENT.exec(line)?.groups ?? {}
  const meaning = meanings.get(name)
  if (meaning?.kind !== 'function' || readReturnedExpression(meaning.body) !== undefined || budget.expansions <= 0)
    return undefined
  budget.expansions -= 1
  const values = splitArguments(args)
  const body = meaning.body.join('\n')
  if (values.length !== meaning.params.length || !values.every((value) => /^[\w$.]+$/.test(value))) return undefined
  return keepsKeys(body, meaning.params, values)
    ? inlineBody(before, substitute(body, meaning.params, values))
    : undefined
}

/**
 * Adapts the statements of a function to the place of its call: `before` is the text in front of the call, which returns or
 * assigns the result. Returns undefined if the function returns at another place than its end.
 */
function inlineBody(before: string, body: string): string | undefined {
  if (before === 'return ') return body
  const returns = body.match(/\breturn\b/g)?.length ?? 0
  if (before === '') return returns === 0 ? body : undefined
  const [indent = ''] = /^[^\S\n]*/.exec(body) ?? []
  const isAtEnd = body.slice(body.lastIndexOf('\n') + 1).startsWith(`${indent}return `)
  return returns === 1 && isAtEnd ? body.replace(/\breturn /, () => before) : undefined
}

/** Returns the expression of a function whose only statement returns one. */
const readReturnedExpression = ([statement = '', ...more]: readonly string[]): string | undefined =>
  more.length > 0 ? undefined : /^\s*return (.*?);?$/.exec(statement)?.[1]

const CHAIN = /(?<![\w$.]|::|->)[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*/g

function expandExpressions(text: string, names: IntroducedNames): string {
  const masked = maskStrings(text)
  const pieces: string[] = []
  let from = 0
  for (const { 0: chain, index } of masked.matchAll(CHAIN)) {
    if (index < from || names.budget.expansions <= 0) continue
    const expansion = expandChain({ text, masked, chain, index }, names)
    if (!expansion) continue
    names.budget.expansions -= 1
    const { length, expanded, isType } = expansion
    const needsBrackets = !isType && !isAtomic(expanded) && !isDelimited(masked, index, index + length)
    pieces.push(text.slice(from, index), needsBrackets ? `(${expanded})` : expanded)
    from = index + length
  }
  return pieces.join('') + text.slice(from)
}

/** A chain of names, such as `a.b.c`, and its position in a text. `masked` is the text without the content of strings. */
type ChainPosition = { text: string; masked: string; chain: string; index: number }
type ExpandedChain = { length: number; expanded: string; isType?: boolean }

function expandChain(position: ChainPosition, { language, meanings }: IntroducedNames): ExpandedChain | undefined {
  const { masked, chain, index } = position
  if (language === 'go' && chain === 'fmt.Sprintf') return expandFormat(position)
  const [first = ''] = chain.split('.')
  const meaning = meanings.get(chain) ?? meanings.get(first)
  if (!meaning) return undefined
  if (meaning.kind === 'function') return expandCall(position, meaning)
  // In `{ name: value }` the name is a key, which does not stand for anything.
  const next = masked.slice(index + first.length, index + first.length + 2)
  const isKey = (language === 'javascript' || language === 'typescript') && /^ ?:/.test(next)
  return isKey ? undefined : { length: first.length, expanded: meaning.text, isType: meaning.kind === 'type' }
}

function expandCall(
  position: ChainPosition,
  { params, body }: Extract<NameMeaning, { kind: 'function' }>,
): ExpandedChain | undefined {
  const result = readReturnedExpression(body)
  const call = readCall(position)
  const before = position.masked.slice(Math.max(0, position.index - CONTEXT_LENGTH), position.index)
  if (result === undefined || !call || DEFINITION_BEFORE.test(before)) return undefined
  // A function with several results cannot replace several arguments.
  const isEquivalent =
    call.values.length === params.length &&
    keepsEvaluation(result, params, call.values) &&
    keepsKeys(result, params, call.values) &&
    splitArguments(result).length === 1
  return isEquivalent ? { length: call.length, expanded: substitute(result, params, call.values) } : undefined
}

/** Number of characters before and after a position that decide what it is. */
const CONTEXT_LENGTH = 20
/** Matches the text before the name of a function that is defined or constructed, and not called. */
const DEFINITION_BEFORE = /\b(?:func|def|function|const|new)\s+$/

/** Returns true if the arguments have no side effects, or are still evaluated once each and in the same order. */
function keepsEvaluation(result: string, params: readonly string[], values: readonly string[]): boolean {
  if (values.every((value) => /^(?:[\w$.]+|"[^"\\]*"|'[^'\\]*')$/.test(value))) return true
  const used = (maskStrings(result).match(/(?<![\w$.])[A-Za-z_$][\w$]*/g) ?? []).filter((word) => params.includes(word))
  return used.length === params.length && used.every((word, at) => word === params[at])
}

/** Returns false if a parameter is in a shorthand property (`{ name }`), whose key another name would change. */
const keepsKeys = (code: string, params: readonly string[], values: readonly string[]): boolean =>
  params.every((param, at) => param === values[at] || !new RegExp(`[{,]\\s*${param}\\s*[,}]`).test(code))

/** Reads `fmt.Sprintf` of strings as a concatenation. */
function expandFormat(position: ChainPosition): ExpandedChain | undefined {
  const call = readCall(position)
  const format = /^"((?:\\.|[^"\\])*)"$/.exec(call?.values[0] ?? '')?.[1]
  if (!call || format === undefined) return undefined
  const pieces = format.split('%s')
  const values = call.values.slice(1)
  if (pieces.some((piece) => piece.includes('%')) || pieces.length !== values.length + 1) return undefined
  const all = pieces.flatMap((piece, at) => [piece === '' ? '' : `"${piece}"`, addBrackets(values[at] ?? '')])
  const joined = all.filter((each) => each !== '')
  // A single value need not be a string.
  return joined.length < 2 ? undefined : { length: call.length, expanded: joined.join(' + ') }
}

const CALL_LENGTH_MAX = 500

/** Reads the arguments of the call whose name is at a position. */
function readCall({ text, masked, chain, index }: ChainPosition): { length: number; values: string[] } | undefined {
  const open = index + chain.length
  if (masked[open] !== '(') return undefined
  const length = findClosing(masked.slice(open, open + CALL_LENGTH_MAX))
  return length < 0
    ? undefined
    : { length: chain.length + length + 1, values: splitArguments(text.slice(open + 1, open + length)) }
}

/** Returns the index of the bracket that closes the first one, or -1. */
function findClosing(masked: string): number {
  let depth = 0
  for (let at = 0; at < masked.length; at += 1) {
    depth += bracketChange(masked[at] ?? '')
    if (depth === 0) return at
  }
  return -1
}

function bracketChange(character: string): number {
  if ('([{'.includes(character)) return 1
  return ')]}'.includes(character) ? -1 : 0
}

function splitArguments(text: string): string[] {
  const masked = maskStrings(text)
  const values: string[] = []
  let depth = 0
  let from = 0
  for (let at = 0; at <= text.length; at += 1) {
    const character = masked[at]
    if (character !== undefined) depth += bracketChange(character)
    if (character !== undefined && (character !== ',' || depth > 0)) continue
    values.push(text.slice(from, at).trim())
    from = at + 1
  }
  return values.filter((value) => value !== '')
}

/** Replaces the parameters of a function by the arguments of a call. */
function substitute(code: string, params: readonly string[], values: readonly string[]): string {
  const masked = maskStrings(code)
  let substituted = ''
  let from = 0
  for (const { 0: word, index } of masked.matchAll(/(?<![\w$.])[A-Za-z_$][\w$]*/g)) {
    const at = params.indexOf(word)
    if (at < 0) continue
    const value = values[at] ?? ''
    const needsBrackets = !isDelimited(masked, index, index + word.length)
    substituted += code.slice(from, index) + (needsBrackets ? addBrackets(value) : value)
    from = index + word.length
  }
  return substituted + code.slice(from)
}

/** Puts a value with operators into brackets. */
const addBrackets = (value: string): string => (value === '' || isAtomic(value) ? value : `(${value})`)

const NESTING_MAX = 10

/** Returns true for names, calls, members and literals, which keep their meaning beside any operator. */
function isAtomic(code: string): boolean {
  let masked = maskStrings(code)
  // Each round replaces the innermost brackets.
  for (let nested = 0; nested < NESTING_MAX; nested += 1)
    masked = masked.replaceAll(/\([^()[\]{}]*\)|\[[^()[\]{}]*\]|\{[^()[\]{}]*\}/g, '_')
  return /^[\w$."'`]*$/.test(masked)
}

/** Returns true if the code on both sides is a separator, a bracket or the end of a statement, so that it needs no brackets. */
const isDelimited = (masked: string, from: number, to: number): boolean =>
  /(?:^|[(,[{:]|(?<![=!<>])=|\breturn)\s*$/.test(masked.slice(Math.max(0, from - CONTEXT_LENGTH), from)) &&
  /^[^\S\n]*(?:[),;\]}]|\n|$)/.test(masked.slice(to, to + CONTEXT_LENGTH))

/** Replaces the content of strings without moving anything. Strings end at the end of their line. */
const maskStrings = (text: string): string =>
  text.replaceAll(
    /"((?:\\.|[^"\\\n])*)"|'((?:\\.|[^'\\\n])*)'|`((?:\\.|[^`\\\n])*)`/g,
    (found) => found[0] + '_'.repeat(found.length - 2) + found[0],
  )
