/** Text before the name in a definition, in the supported languages. Matched backwards from the name, to stay fast. */
const DEFINITION_BEFORE =
  /(?:\b(?:def|class|function\*?|fn|func|fun|struct|enum|trait|interface|type|module|record|object|protocol|extension|macro_rules!|defmodule|defp?|union|typedef|namespace)\s+|\bfunc\s*\([^()]{0,200}\)\s*|\b(?:const|let|var|val|static|final|readonly|pub const|#define)\s+(?:mut\s+)?)(?:self\.)?$/
const METHOD_BEFORE =
  /(?:^|\n)[ \t]*(?:(?:public|private|protected|internal|static|async|override|virtual|inline|constexpr|export|default|abstract|synchronized|get|set|template\s*<[^>]{0,100}>|[\w:<>,[\]?&*.~]+)[ \t]+){0,6}[*&]?(?:[\w]+::)?\*?$/
const KEYWORDS =
  /^(?:\s*(?:return|throw|new|await|yield|if|else|while|for|switch|case|not|and|or|in|assert|import|from|export\s+\{|use|require|include|goto|delete|del|raise|elif|echo|print)\b)/

const LINE_MAX = 400
const SIGNATURE_MAX = 300

/** Finds the signature of the definition of a name, without its body. Null if the blocks do not define it. */
export function findSignature(name: string, blocks: readonly string[]): string | null {
  for (const block of blocks) {
    for (const at of findOccurrences(name, block)) {
      if (isDefinition(block, at, name)) return readSignature(block, at, name)
    }
  }
  return null
}

/** Returns the signature of the function that has a parameter of this name. */
export function findEnclosingSignature(name: string, signatures: readonly string[]): string | null {
  const word = new RegExp(`[(,*&\\s]${escapeRegExp(name)}\\s*[?:=,)\\s]`)
  return signatures.find((head) => head.includes('(') && word.test(head.slice(head.indexOf('(')))) ?? null
}

/** Lists the signatures of the names that the blocks define. */
export function listSignatures(names: Iterable<string>, blocks: readonly string[]): string[] {
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
  const near = block.slice(Math.max(0, at - LINE_MAX), at)
  return near.slice(near.lastIndexOf('\n') + 1)
}

function isDefinition(block: string, at: number, name: string): boolean {
  const line = readLineBefore(block, at)
  if (DEFINITION_BEFORE.test(line)) return true
  const rest = block.slice(at + name.length, at + name.length + LINE_MAX)
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
  const text = block.slice(from, from + LINE_MAX * 4)
  const end = findSignatureEnd(text, at - from + name.length)
  const head = text.slice(0, end).replaceAll(/\s+/g, ' ').trim().replace(/[:,]$/, '').trim()
  return head.length <= SIGNATURE_MAX ? head : `${head.slice(0, SIGNATURE_MAX - 1)}…`
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

/** Tests for `= (a, b) => …`: the parameters of a function value belong to its signature. */
const startsFunction = (text: string, at: number): boolean =>
  text[at + 1] !== '>' &&
  /^=\s*(?:async\s*)?(?:function\s*)?\([^()]{0,200}\)\s*(?:=>|\{)/.test(text.slice(at, at + 300))
