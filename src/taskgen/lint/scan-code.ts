import type { SourceLanguage } from '../../grading/languages/language.ts'

/** A text of code, without its comments: what stands outside of strings, and what stands in them. */
export type ScannedCode = { code: string; literals: string[] }

type SyntaxPiece = [kind: 'comment' | 'literal' | 'skip', pattern: RegExp]

/**
 * Scans code in one pass, without a grammar. Known gaps: regular expressions in JavaScript, multi-line strings (mostly
 * documentation), and the content of interpolations (`${…}`).
 */
export function scanCode(text: string, language: SourceLanguage | undefined): ScannedCode {
  const pieces = syntaxFor(language)
  const scanned: ScannedCode = { code: '', literals: [] }
  let from = 0
  for (let at = 0; at < text.length; ) {
    const found = STARTS.has(text[at] ?? '') ? matchAt(pieces, text, at) : undefined
    if (!found) {
      at += 1
      continue
    }
    scanned.code += `${text.slice(from, at)} `
    if (found.kind === 'literal' && found.literal !== '') scanned.literals.push(found.literal)
    at += found.length
    from = at
  }
  scanned.code += text.slice(from)
  return scanned
}

const STARTS = new Set(['#', '/', '"', "'", '`', '-'])

function matchAt(pieces: readonly SyntaxPiece[], text: string, at: number) {
  for (const [kind, pattern] of pieces) {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match) return { kind, length: match[0].length, literal: match[1] ?? match[2] ?? match[3] ?? '' }
  }
  return undefined
}

/** Each gives up at the end of its line, or at a bound: a quote that is never closed costs no more than that. */
const TRIPLE: SyntaxPiece = ['comment', /"""[\s\S]{0,20000}?"""|'''[\s\S]{0,20000}?'''/y]
const DOUBLE: SyntaxPiece = ['literal', /"((?:\\.|[^"\\\n]){0,2000})"/y]
const SINGLE: SyntaxPiece = ['literal', /'((?:\\.|[^'\\\n]){0,2000})'/y]
const BACKTICK: SyntaxPiece = ['literal', /`((?:\\.|[^`\\\n]){0,2000})`/y]
const CHARACTER: SyntaxPiece = ['skip', /'(?:\\.[^'\n]{0,8}|[^'\\\n])'/y]
const HASH: SyntaxPiece = ['comment', /#[^\n]*/y]
const SLASHES: SyntaxPiece = ['comment', /\/\/[^\n]*|\/\*[\s\S]{0,20000}?\*\//y]
const DASHES: SyntaxPiece = ['comment', /--[^\n]*/y]

const COMMENTS: Record<SourceLanguage['comments'], readonly SyntaxPiece[]> = {
  hash: [HASH],
  'hash-and-slashes': [HASH, SLASHES],
  dashes: [DASHES],
  slashes: [SLASHES],
}

function syntaxFor(language: SourceLanguage | undefined): SyntaxPiece[] {
  const quote = language?.singleQuote === 'character' ? CHARACTER : SINGLE
  return [...COMMENTS[language?.comments ?? 'slashes'], TRIPLE, DOUBLE, quote, BACKTICK]
}

const NAME = /[A-Za-z_$][\w$]*[?!]?/g

/** Shorter ones are letters of a formula, or of a loop. */
const NAME_LENGTH_MIN = 3
const NAME_LENGTH_MAX = 120

export function listNames(code: string): Set<string> {
  const names = new Set<string>()
  for (const [found] of code.matchAll(NAME)) {
    const name = found.replace(/[?!]$/, '')
    if (name.length >= NAME_LENGTH_MIN && name.length <= NAME_LENGTH_MAX) names.add(name)
  }
  return names
}
