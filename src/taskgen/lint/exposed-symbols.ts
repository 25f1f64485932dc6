import type { SourceLanguage } from '../../grading/languages/language.ts'
import { findSourceLanguage } from '../../grading/languages/languages.ts'
import type { HiddenTests } from '../../grading/suite.ts'
import { decodeText, type PatchedFile, parsePatch } from '../candidates/read-diffs.ts'
import type { ExposedSymbol } from './render-instruction.ts'

export type ChangeUnderTest = { source: string; hidden: HiddenTests }

/**
 * Lists symbols that the tests use and the change introduces, so that a solver could not guess them. Tests are scanned
 * whole, so the result also contains symbols of old lines. The caller drops those that occur in the base tree.
 */
export function listSymbolCandidates({ source, hidden }: ChangeUnderTest): ExposedSymbol[] {
  const changedFiles = parsePatch(source)
  const tests = hidden.files.map(({ path, content }) => ({ path, text: decodeText(content) }))
  const scannedTests = tests.map(({ path, text }) => scanCode(text, findSourceLanguage(path)))
  const scannedChange = changedFiles.flatMap(({ path, blocks }) =>
    blocks.map((block) => scanCode(block, findSourceLanguage(path))),
  )
  const addedBlocks = changedFiles.flatMap((file) => file.blocks)
  const names = listExposedNames(scannedChange, scannedTests, addedBlocks)
  const nameTexts = new Set(names.map(({ text }) => text))
  const literals = listLiterals(scannedChange, scannedTests).filter((text) => !nameTexts.has(text))
  return [
    ...listNewPaths(changedFiles, tests),
    ...names,
    ...literals.map((text) => ({ kind: 'literal' as const, text, signature: null })),
  ]
}

/** Bounds on untrusted input, because symbols are compared pairwise. */
const NAMES_MAX = 4000
const SIGNATURES_MAX = 500
const LITERALS_MAX = 2000

function listExposedNames(
  change: readonly ScannedCode[],
  tests: readonly ScannedCode[],
  addedBlocks: readonly string[],
): ExposedSymbol[] {
  const [introduced, used] = [collectWords(change), collectWords(tests)]
  const ownNames = listTestOnlyNames(tests.map(({ code }) => code).join('\n'))
  const isShared = (name: string) =>
    !ownNames.has(name) &&
    ((introduced.code.has(name) && used.all.has(name)) || (introduced.all.has(name) && used.code.has(name)))
  const signatures = listSignatures([...introduced.code].slice(0, NAMES_MAX), addedBlocks).slice(0, SIGNATURES_MAX)
  return [...introduced.all]
    .filter(isShared)
    .sort()
    .slice(0, NAMES_MAX)
    .map((name) => ({
      kind: 'name',
      text: name,
      signature: findSignature(name, addedBlocks) ?? findEnclosingSignature(name, signatures),
    }))
}

/**
 * Collects the names in code, and also those in strings: a field is often a name in the code and a string in the tests.
 */
function collectWords(scanned: readonly ScannedCode[]): { code: Set<string>; all: Set<string> } {
  const code = listNames(scanned.map((each) => each.code).join('\n'))
  const strings = scanned.flatMap(({ literals: texts }) => texts.filter((text) => listNames(text).has(text)))
  return { code, all: new Set([...code, ...strings]) }
}

const DEFINITION =
  /\b(?:const|let|var|val|def|func|fn|function|class|for|mut|auto|as)\s+([\w$]+)|^[ \t]*([\w$]+)(?:\s*:[^=\n]{0,60})?\s+:?=\s/gm
const MEMBER_OR_ARGUMENT = /(?:\.|::|->|@)\s*([\w$]+)|[(,]\s*([\w$]+)=(?!=)/g
const IMPORT = /\b(?:import|require|include|use|using|from|mod|load|source)\b/
const LINE_LENGTH_MAX = 1000

/**
 * Lists names that tests define themselves and do not use for anything else. They equal names of the change only by
 * chance.
 */
function listTestOnlyNames(code: string): Set<string> {
  // Each pattern has two alternatives with a group each.
  const matchNames = (pattern: RegExp) => [...code.matchAll(pattern)].map(([, one, other]) => one ?? other ?? '')
  const usedOtherwise = new Set(matchNames(MEMBER_OR_ARGUMENT))
  for (const line of listImports(code)) for (const name of listNames(line)) usedOtherwise.add(name)
  return new Set(matchNames(DEFINITION).filter((name) => !usedOtherwise.has(name)))
}

const listImports = (text: string): string[] =>
  text.split('\n').filter((line) => line.length < LINE_LENGTH_MAX && IMPORT.test(line))

const LITERAL_LENGTH_MIN = 2
const LITERAL_LENGTH_MAX = 200
/** Shorter parts of a text, such as punctuation, occur in both by chance. */
const PART_LENGTH_MIN = 8
const PLACEHOLDER = /\$?\{[^{}]*\}|%[-+#0-9.]*[a-zA-Z]|\\\(.*?\)|#\{[^{}]*\}/

/** Lists the literals, or parts of them, that occur both in the change and in the tests. */
function listLiterals(change: readonly ScannedCode[], tests: readonly ScannedCode[]): string[] {
  const testLiterals = new Set(tests.flatMap((each) => each.literals))
  const introduced = [...new Set(change.flatMap((each) => each.literals))].slice(0, LITERALS_MAX)
  const asserted = [...testLiterals].slice(0, LITERALS_MAX)
  const shared = introduced.flatMap((text) =>
    testLiterals.has(text) ? [text] : [...listFixedParts(text, asserted), ...listAssertedParts(text, asserted)],
  )
  return [...new Set(shared)].filter(isWorthExposing).sort()
}

/** Lists the fixed parts of a formatted message. Tests assert such messages with values filled in. */
const listFixedParts = (text: string, asserted: readonly string[]): string[] =>
  text
    .split(PLACEHOLDER)
    .map((part) => part.trim())
    .filter((part) => part.length >= PART_LENGTH_MIN && asserted.some((each) => each.includes(part)))

/** Lists the asserted texts that are part of a message. Tests often assert only part of a long one. */
const listAssertedParts = (text: string, asserted: readonly string[]): string[] =>
  asserted.map((each) => each.trim()).filter((each) => each.length >= PART_LENGTH_MIN && text.includes(each))

const isWorthExposing = (text: string): boolean =>
  text.length >= LITERAL_LENGTH_MIN && text.length <= LITERAL_LENGTH_MAX && /[\p{L}\p{N}]/u.test(text)

const GENERIC_FILE_NAMES = ['__init__', 'index', 'mod', 'lib', 'main']

/** Lists files that the change adds and that tests load by name. */
function listNewPaths(changedFiles: readonly PatchedFile[], tests: readonly { text: string }[]): ExposedSymbol[] {
  const imports = tests.flatMap(({ text }) => listImports(text))
  return changedFiles
    .filter(({ isNew, path }) => isNew && imports.some((line) => isLoaded(path, line)))
    .map(({ path }) => ({ kind: 'path', text: path, signature: null }))
}

function isLoaded(path: string, line: string): boolean {
  const parts = path.replace(/(?:\.d)?\.[^./]+$/, '').split('/')
  if (parts.length > 1 && GENERIC_FILE_NAMES.includes(parts.at(-1) ?? '')) parts.pop()
  const name = parts.at(-1) ?? ''
  return line.split(/[^\w$-]+/).includes(name)
}

/** Code without comments: the text outside of strings, and the strings. */
type ScannedCode = { code: string; literals: string[] }

type SyntaxPiece = [kind: 'comment' | 'literal' | 'skip', pattern: RegExp]

/**
 * Scans code in one pass, without a grammar. Known gaps: regular expressions in JavaScript, multi-line strings (mostly
 * documentation), and the content of interpolations (`${…}`).
 */
export function scanCode(text: string, language: SourceLanguage | undefined): ScannedCode {
  const pieces = listSyntaxPieces(language)
  const findBlockEnd = createBlockEndFinder(text)
  const scanned: ScannedCode = { code: '', literals: [] }
  let from = 0
  for (let at = 0; at < text.length; ) {
    const piece = PIECE_STARTS.has(text[at] ?? '') ? matchAt(pieces, text, at, findBlockEnd) : undefined
    if (!piece) {
      at += 1
      continue
    }
    scanned.code += `${text.slice(from, at)} `
    if (piece.kind === 'literal' && piece.literal !== '') scanned.literals.push(piece.literal)
    at += piece.length
    from = at
  }
  scanned.code += text.slice(from)
  return scanned
}

const PIECE_STARTS = new Set(['#', '/', '"', "'", '`', '-'])

function matchAt(pieces: readonly SyntaxPiece[], text: string, at: number, findBlockEnd: (at: number) => number) {
  for (const [kind, pattern] of pieces) {
    if (pattern === BLOCK && text.startsWith('/*', at) && findBlockEnd(at) > at + BLOCK_LENGTH_MAX) continue
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match) return { kind, length: match[0].length, literal: match[1] ?? match[2] ?? match[3] ?? '' }
  }
  return undefined
}

const BLOCK_LENGTH_MAX = 20_000

/** Returns a function that finds the end of a block comment. Remembers the last end, so that all calls take linear time. */
function createBlockEndFinder(text: string): (at: number) => number {
  let end = -1
  return (at) => {
    if (end < at + 2) {
      const next = text.indexOf('*/', at + 2)
      end = next === -1 ? Number.POSITIVE_INFINITY : next
    }
    return end
  }
}

/** Each pattern stops at the end of the line or at a bound, so that an unclosed quote costs little time. */
const TRIPLE: SyntaxPiece = ['comment', /"""[\s\S]{0,20000}?"""|'''[\s\S]{0,20000}?'''/y]
const DOUBLE: SyntaxPiece = ['literal', /"((?:\\.|[^"\\\n]){0,2000})"/y]
const SINGLE: SyntaxPiece = ['literal', /'((?:\\.|[^'\\\n]){0,2000})'/y]
const BACKTICK: SyntaxPiece = ['literal', /`((?:\\.|[^`\\\n]){0,2000})`/y]
const CHARACTER: SyntaxPiece = ['skip', /'(?:\\.[^'\n]{0,8}|[^'\\\n])'/y]
const HASH: SyntaxPiece = ['comment', /#[^\n]*/y]
const BLOCK = /\/\/[^\n]*|\/\*[\s\S]{0,20000}?\*\//y
const SLASHES: SyntaxPiece = ['comment', BLOCK]
const DASHES: SyntaxPiece = ['comment', /--[^\n]*/y]

const COMMENTS: Record<SourceLanguage['comments'], readonly SyntaxPiece[]> = {
  hash: [HASH],
  'hash-and-slashes': [HASH, SLASHES],
  dashes: [DASHES],
  slashes: [SLASHES],
}

function listSyntaxPieces(language: SourceLanguage | undefined): SyntaxPiece[] {
  const quote = language?.singleQuote === 'character' ? CHARACTER : SINGLE
  return [...COMMENTS[language?.comments ?? 'slashes'], TRIPLE, DOUBLE, quote, BACKTICK]
}

const NAME = /[A-Za-z_$][\w$]*[?!]?/g

/** Minimum length of a name. Shorter ones are variables of formulas and loops. */
const NAME_LENGTH_MIN = 3
const NAME_LENGTH_MAX = 120

function listNames(code: string): Set<string> {
  const names = new Set<string>()
  for (const [found] of code.matchAll(NAME)) {
    const name = found.replace(/[?!]$/, '')
    if (name.length >= NAME_LENGTH_MIN && name.length <= NAME_LENGTH_MAX) names.add(name)
  }
  return names
}

/** Text before the name in a definition, in the supported languages. Matched backwards from the name, to stay fast. */
const DEFINITION_BEFORE =
  /(?:\b(?:def|class|function\*?|fn|func|fun|struct|enum|trait|interface|type|module|record|object|protocol|extension|macro_rules!|defmodule|defp?|union|typedef|namespace)\s+|\bfunc\s*\([^()]{0,200}\)\s*|\b(?:const|let|var|val|static|final|readonly|pub const|#define)\s+(?:mut\s+)?)(?:self\.)?$/
const METHOD_BEFORE =
  /(?:^|\n)[ \t]*(?:(?:public|private|protected|internal|static|async|override|virtual|inline|constexpr|export|default|abstract|synchronized|get|set|template\s*<[^>]{0,100}>|[\w:<>,[\]?&*.~]+)[ \t]+){0,6}[*&]?(?:[\w]+::)?\*?$/
const KEYWORDS =
  /^(?:\s*(?:return|throw|new|await|yield|if|else|while|for|switch|case|not|and|or|in|assert|import|from|export\s+\{|use|require|include|goto|delete|del|raise|elif|echo|print)\b)/

/** Number of characters that are searched before and after a name. */
const SEARCHED_MAX = 400
const SIGNATURE_LENGTH_MAX = 300

/** Finds the signature of the definition of a name, without its body. Null if the blocks do not define it. */
function findSignature(name: string, blocks: readonly string[]): string | null {
  for (const block of blocks) {
    for (const at of findOccurrences(name, block)) {
      if (isDefinition(block, at, name)) return readSignature(block, at, name)
    }
  }
  return null
}

/** Returns the signature of the function that has a parameter of this name. */
function findEnclosingSignature(name: string, signatures: readonly string[]): string | null {
  const word = new RegExp(`[(,*&\\s]${escapeRegExp(name)}\\s*[?:=,)\\s]`)
  return signatures.find((head) => head.includes('(') && word.test(head.slice(head.indexOf('(')))) ?? null
}

/** Lists the signatures of the names that the blocks define. */
function listSignatures(names: Iterable<string>, blocks: readonly string[]): string[] {
  return [...names].flatMap((name) => findSignature(name, blocks) ?? [])
}

const escapeRegExp = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

function* findOccurrences(name: string, block: string): Generator<number> {
  for (let at = block.indexOf(name); at >= 0; at = block.indexOf(name, at + name.length)) {
    if (!isWord(block[at - 1]) && !isWord(block[at + name.length])) yield at
  }
}

const isWord = (character: string | undefined): boolean => character !== undefined && /[\w$]/.test(character)

/** Returns the text before a position on its line, bounded for long lines. */
function readLineBefore(block: string, at: number): string {
  const near = block.slice(Math.max(0, at - SEARCHED_MAX), at)
  return near.slice(near.lastIndexOf('\n') + 1)
}

function isDefinition(block: string, at: number, name: string): boolean {
  const line = readLineBefore(block, at)
  if (DEFINITION_BEFORE.test(line)) return true
  const rest = block.slice(at + name.length, at + name.length + SEARCHED_MAX)
  // A method without a keyword: parameters in parentheses, then a body.
  return (
    /^\s*(?:<[^<>()]{0,100}>)?\(/.test(rest) &&
    METHOD_BEFORE.test(`\n${line}`) &&
    !KEYWORDS.test(line) &&
    /^[^)]*\)[^\n;=]{0,100}\{/.test(rest)
  )
}

/** Returns the text from the beginning of the line to the body, on one line. */
function readSignature(block: string, at: number, name: string): string {
  const from = at - readLineBefore(block, at).length
  const text = block.slice(from, from + SEARCHED_MAX * 4)
  const end = findSignatureEnd(text, at - from + name.length)
  const head = text.slice(0, end).replaceAll(/\s+/g, ' ').trim().replace(/[:,]$/, '').trim()
  return head.length <= SIGNATURE_LENGTH_MAX ? head : `${head.slice(0, SIGNATURE_LENGTH_MAX - 1)}…`
}

/** Finds the end of the signature. Values and bodies are excluded, because they reveal the solution. */
function findSignatureEnd(text: string, from: number): number {
  let depth = 0
  for (let at = from; at < text.length; at++) {
    const step = readBracketStep(text, at)
    if (step === 0 && depth === 0 && endsSignature(text, at)) return at
    depth = Math.max(0, depth + step)
  }
  return text.length
}

/** Returns 1 for an opening bracket, -1 for a closing one, else 0. Arrows and comparisons are not brackets. */
function readBracketStep(text: string, at: number): number {
  const [before, character, after] = [text[at - 1] ?? '', text[at] ?? '', text[at + 1] ?? '']
  if ('(['.includes(character) || (character === '<' && /\w/.test(after))) return 1
  return ')]'.includes(character) || (character === '>' && !'-= '.includes(before)) ? -1 : 0
}

function endsSignature(text: string, at: number): boolean {
  const character = text[at] ?? ''
  if (character === '=') return !startsFunction(text, at)
  return '{;\n'.includes(character)
}

/** Returns true for `= (a, b) => …`: the parameters of a function value belong to its signature. */
const startsFunction = (text: string, at: number): boolean =>
  text[at + 1] !== '>' &&
  /^=\s*(?:async\s*)?(?:function\s*)?\([^()]{0,200}\)\s*(?:=>|\{)/.test(text.slice(at, at + 300))
