import { findSourceLanguage } from '../../grading/languages/languages.ts'
import type { HiddenTests } from '../../grading/suite.ts'
import { decoded, type PatchedFile, patchedFiles } from './patch-files.ts'
import type { PinnedSymbol } from './render-instruction.ts'
import { namesIn, type Scanned, scanCode } from './scan-code.ts'
import { enclosingSignature, headsIn, signatureOf } from './signatures.ts'

export type ChangeUnderTest = { source: string; hidden: HiddenTests }

/**
 * What the tests use and the change brings: whoever has not seen the change could not guess it. Tests are looked at whole:
 * what stands in a line that they already had stands in the base tree too, and falls out there. `baseHas` says whether a
 * text occurs anywhere in the base tree, to the letter and as a whole word.
 */
export function pinnedSymbols(order: ChangeUnderTest & { baseHas(text: string): boolean }): PinnedSymbol[] {
  return symbolsToLookFor(order).filter(({ kind, text }) => kind === 'path' || !order.baseHas(text))
}

/** Before the base tree is asked: the few texts that it has to be asked for. */
export function symbolsToLookFor({ source, hidden }: ChangeUnderTest): PinnedSymbol[] {
  const gold = patchedFiles(source)
  const tests = hidden.files.map(({ path, content }) => ({ path, text: decoded(content) }))
  const scannedTests = tests.map(({ path, text }) => scanCode(text, findSourceLanguage(path)))
  const scannedGold = gold.flatMap(({ path, blocks }) =>
    blocks.map((block) => scanCode(block, findSourceLanguage(path))),
  )
  const blocks = gold.flatMap((file) => file.blocks)
  const named = names(scannedGold, scannedTests, blocks)
  const isNamed = new Set(named.map(({ text }) => text))
  const said = literals(scannedGold, scannedTests).filter((text) => !isNamed.has(text))
  return [
    ...newPaths(gold, tests),
    ...named,
    ...said.map((text) => ({ kind: 'literal' as const, text, signature: null })),
  ]
}

/** More than a change of a thousand lines brings: each is held against all others, and no stranger decides how many there are. */
const NAMES_MAX = 4000
const HEADS_MAX = 500
const LITERALS_MAX = 2000

function names(gold: readonly Scanned[], tests: readonly Scanned[], blocks: readonly string[]): PinnedSymbol[] {
  const [brought, used] = [wordsOf(gold), wordsOf(tests)]
  const own = ownNames(tests.map(({ code }) => code).join('\n'))
  const isShared = (name: string) =>
    !own.has(name) && ((brought.code.has(name) && used.all.has(name)) || (brought.all.has(name) && used.code.has(name)))
  const heads = headsIn([...brought.code].slice(0, NAMES_MAX), blocks).slice(0, HEADS_MAX)
  return [...brought.all]
    .filter(isShared)
    .sort()
    .slice(0, NAMES_MAX)
    .map((name) => ({
      kind: 'name',
      text: name,
      signature: signatureOf(name, blocks) ?? enclosingSignature(name, heads),
    }))
}

/** A field is a name on one side and often a string on the other. */
function wordsOf(scanned: readonly Scanned[]): { code: Set<string>; all: Set<string> } {
  const code = namesIn(scanned.map((each) => each.code).join('\n'))
  const strings = scanned.flatMap(({ literals: texts }) => texts.filter((text) => namesIn(text).has(text)))
  return { code, all: new Set([...code, ...strings]) }
}

const MADE =
  /\b(?:const|let|var|val|def|func|fn|function|class|for|mut|auto|as)\s+([\w$]+)|^[ \t]*([\w$]+)(?:\s*:[^=\n]{0,60})?\s+:?=\s/gm
const REACHED = /(?:\.|::|->|@)\s*([\w$]+)|[(,]\s*([\w$]+)=(?!=)/g
const IMPORT = /\b(?:import|require|include|use|using|from|mod|load|source)\b/
const LINE_MAX = 1000

/** Names that tests give to something of their own, and reach in nothing else: they are theirs by chance. */
function ownNames(code: string): Set<string> {
  const named = (text: string, pattern: RegExp) =>
    [...text.matchAll(pattern)].map(([, one, other]) => one ?? other ?? '')
  const reached = new Set(named(code, REACHED))
  for (const line of importsIn(code)) for (const name of namesIn(line)) reached.add(name)
  return new Set(named(code, MADE).filter((name) => !reached.has(name)))
}

const importsIn = (text: string): string[] =>
  text.split('\n').filter((line) => line.length < LINE_MAX && IMPORT.test(line))

const LITERAL_MIN = 2
const LITERAL_MAX = 200
/** Of a text that is put together: fixed pieces shorter than this are punctuation. */
const PIECE_MIN = 8
const PLACEHOLDER = /\$?\{[^{}]*\}|%[-+#0-9.]*[a-zA-Z]|\\\(.*?\)|#\{[^{}]*\}/

function literals(gold: readonly Scanned[], tests: readonly Scanned[]): string[] {
  const whole = new Set(tests.flatMap((each) => each.literals))
  const brought = [...new Set(gold.flatMap((each) => each.literals))].slice(0, LITERALS_MAX)
  const asserted = [...whole].slice(0, LITERALS_MAX)
  const found = brought.flatMap((text) =>
    whole.has(text) ? [text] : [...piecesOf(text, asserted), ...partsOf(text, asserted)],
  )
  return [...new Set(found)].filter(isWorthPinning).sort()
}

/** A message with values in it is asserted with the values: its fixed pieces are what must be known. */
const piecesOf = (text: string, asserted: readonly string[]): string[] =>
  text
    .split(PLACEHOLDER)
    .map((piece) => piece.trim())
    .filter((piece) => piece.length >= PIECE_MIN && asserted.some((each) => each.includes(piece)))

/** Of a long message tests often assert a part, and that part is what must be known. */
const partsOf = (text: string, asserted: readonly string[]): string[] =>
  asserted.map((each) => each.trim()).filter((each) => each.length >= PIECE_MIN && text.includes(each))

const isWorthPinning = (text: string): boolean =>
  text.length >= LITERAL_MIN && text.length <= LITERAL_MAX && /[\p{L}\p{N}]/u.test(text)

const NAMELESS = ['__init__', 'index', 'mod', 'lib', 'main']

/** A file that the change brings, and that tests load by its name. */
function newPaths(gold: readonly PatchedFile[], tests: readonly { text: string }[]): PinnedSymbol[] {
  const imports = tests.flatMap(({ text }) => importsIn(text))
  return gold
    .filter(({ isNew, path }) => isNew && imports.some((line) => isLoaded(path, line)))
    .map(({ path }) => ({ kind: 'path', text: path, signature: null }))
}

function isLoaded(path: string, line: string): boolean {
  const parts = path.replace(/(?:\.d)?\.[^./]+$/, '').split('/')
  if (parts.length > 1 && NAMELESS.includes(parts.at(-1) ?? '')) parts.pop()
  const name = parts.at(-1) ?? ''
  return line.split(/[^\w$-]+/).includes(name)
}
