import { ShellCursor, UnreadableScript, WORD_END } from './shell-cursor.ts'
import {
  createCommand,
  createVariable,
  joinTexts,
  LENGTH,
  plainText,
  type Redirect,
  type ShellCommand,
  type ShellWord,
  type WordPart,
} from './shell-words.ts'

/** Returns the commands of a shell script. Control structures are flattened. Throws UnreadableScript. */
export function parseShell(text: string): ShellCommand[] {
  return new ShellParser(text).readCommands(undefined)
}

const KEYWORDS = ['then', 'elif', 'else', 'do', '!', 'time']
const OPENING = { ')': '(', '}': '{', fi: 'if', done: 'loop', esac: 'case' } as const
const OPENING_KEYWORDS = { if: 'if', while: 'loop', until: 'loop' } as const
const FUNCTION = /^(?:function[ \t]+([\w.:-]+)(?:[ \t]*\([ \t]*\))?|([\w.:-]+)[ \t]*\([ \t]*\))/
const REDIRECT = /^(\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())/
const NAME = /^(?:[A-Za-z_]\w*|\d|[?#$!@*_-])/
const VARIABLE = /^\$([A-Za-z_]\w*|\d|[?#$!@*_-])/

type PendingHeredoc = { redirect: Redirect; delimiter: string; isQuoted: boolean; isStripped: boolean }

type Closing = keyof typeof OPENING

/**
 * Commands that are read together. `open`: the groups that have begun, with the number of commands before them;
 * `expectsPattern`: a clause of a `case` follows.
 */
type ParserScope = {
  end: ')' | '}' | undefined
  commands: ShellCommand[]
  open: { mark: (typeof OPENING)[Closing]; start: number }[]
  expectsPattern: boolean
}

function openGroup({ open, commands }: ParserScope, mark: ParserScope['open'][number]['mark']): void {
  open.push({ mark, start: commands.length })
}

function finishText({ end, commands, open }: ParserScope): ShellCommand[] {
  if (end !== undefined || open.length > 0) throw new UnreadableScript('unexpected end')
  return commands
}

class ShellParser extends ShellCursor {
  readonly #heredocs: PendingHeredoc[] = []

  /** Reads to the end of the text, or behind the `)` that ends a substitution or the `}` that ends a function. */
  readCommands(end: ParserScope['end']): ShellCommand[] {
    const scope: ParserScope = { end, commands: [], open: [], expectsPattern: false }
    for (;;) {
      this.skipBlanks()
      if (this.isAtEnd()) return finishText(scope)
      if (scope.expectsPattern) this.#readClause(scope)
      else if (this.#readClosingOrItem(scope) === 'ended') return scope.commands
    }
  }

  #readClause(scope: ParserScope): void {
    this.#skipBlanksAndLines()
    scope.expectsPattern = false
    if (this.takeKeyword('esac')) this.#closeGroup(scope, 'esac')
    else scope.commands.push(this.#readPattern())
  }

  /** Takes the mark that ends a group, a substitution or a function. Reads the next item if there is none. */
  #readClosingOrItem(scope: ParserScope): 'ended' | undefined {
    const closing = this.#takeBracket()
    if (closing === undefined) return this.#readItem(scope)
    if (scope.end === closing && scope.open.length === 0) return 'ended'
    this.#closeGroup(scope, closing)
    return undefined
  }

  #takeBracket(): ')' | '}' | undefined {
    if (this.take(')')) return ')'
    return this.takeKeyword('}') ? '}' : undefined
  }

  #closeGroup({ open, commands }: ParserScope, closing: Closing): void {
    const group = open.pop()
    if (group?.mark !== OPENING[closing]) throw new UnreadableScript(`unexpected ${closing}`)
    commands.push(...this.#readGroupEnd(commands.length - group.start))
  }

  #readItem(scope: ParserScope): undefined {
    const { commands } = scope
    if (this.take('\n')) this.#readHeredocs()
    else if (this.take(';;') || this.take(';&')) scope.expectsPattern = true
    else if (this.#takeSeparator(commands)) return
    else if (this.take('((')) commands.push(createCommand('arithmetic', [], this.#readArithmetic()))
    else if (this.take('(')) openGroup(scope, '(')
    else if (this.takeKeyword('{')) openGroup(scope, '{')
    else if (this.takeKeyword('case')) this.#readCase(scope)
    else commands.push(...this.#readCommand(scope))
  }

  #takeSeparator(commands: ShellCommand[]): boolean {
    if (this.take('&&')) return markLast(commands, 'isDecisive')
    if (this.take('||')) return !ENDS_SCRIPT.test(this.rest()) || markLast(commands, 'isDecisive')
    if (this.take(';') || this.take('&')) return true
    return this.take('|') && markLast(commands, 'isPiped')
  }

  #readCase(scope: ParserScope): void {
    scope.commands.push(createCommand('words', [this.#readNextWord()]))
    this.#skipBlanksAndLines()
    if (!this.takeKeyword('in')) throw new UnreadableScript('case without in')
    openGroup(scope, 'case')
    scope.expectsPattern = true
  }

  #readCommand(scope: ParserScope): ShellCommand[] {
    if (KEYWORDS.some((word) => this.takeKeyword(word)) || this.#takeGroupKeyword(scope)) return []
    if (this.takeKeyword('for') || this.takeKeyword('select')) {
      openGroup(scope, 'loop')
      return [this.#readLoop()]
    }
    if (this.takeKeyword('[[')) return [this.#readTest()]
    const [matched, first, second] = FUNCTION.exec(this.rest()) ?? []
    if (matched === undefined) return [this.#readSimple()]
    this.at += matched.length
    return [this.#readFunction(first ?? second ?? '')]
  }

  #takeGroupKeyword(scope: ParserScope): boolean {
    for (const [word, mark] of Object.entries(OPENING_KEYWORDS))
      if (this.takeKeyword(word)) {
        openGroup(scope, mark)
        return true
      }
    const closing = (['fi', 'done', 'esac'] as const).find((word) => this.takeKeyword(word))
    if (closing !== undefined) this.#closeGroup(scope, closing)
    return closing !== undefined
  }

  #readFunction(name: string): ShellCommand {
    this.#skipBlanksAndLines()
    const isGroup = this.takeKeyword('{')
    if (!isGroup && !this.take('(')) throw new UnreadableScript('a function without a group')
    const body = this.readCommands(isGroup ? '}' : ')')
    return { ...createCommand('function', [], name), body: [...body, ...this.#readGroupEnd(body.length)] }
  }

  #readLoop(): ShellCommand {
    this.skipBlanks()
    if (this.take('((')) return createCommand('arithmetic', [], this.#readArithmetic())
    const words = [this.#readNextWord()]
    this.#skipBlanksAndLines()
    if (!this.takeKeyword('in')) return createCommand('loop', [...words, [createVariable('@')]])
    for (;;) {
      this.skipBlanks()
      if (this.isAtEnd() || this.peek() === '\n' || this.peek() === ';') return createCommand('loop', words)
      words.push(this.#readWord())
    }
  }

  #readTest(): ShellCommand {
    const words: ShellWord[] = []
    for (;;) {
      this.#skipBlanksAndLines()
      if (this.isAtEnd()) throw new UnreadableScript('missing ]]')
      if (this.takeKeyword(']]')) return { ...createCommand('test', words), redirects: this.#readRedirects() }
      words.push(this.#readWord(TEST_END))
    }
  }

  #readSimple(): ShellCommand {
    const simple = createCommand('simple', [])
    for (;;) {
      this.skipBlanks()
      if (this.isAtEnd() || '\n;|()'.includes(this.peek())) break
      if (REDIRECT.test(this.rest())) {
        simple.redirects.push(this.#readRedirect())
        continue
      }
      if (this.peek() === '&') break
      simple.words.push(this.#readWord())
    }
    if (simple.words.length + simple.redirects.length === 0) throw new UnreadableScript(`unexpected ${this.peek()}`)
    return simple
  }

  #readPattern(): ShellCommand {
    const words: ShellWord[] = []
    this.take('(')
    for (;;) {
      this.skipBlanks()
      if (this.isAtEnd()) throw new UnreadableScript('missing ) of a case')
      if (this.take(')')) return createCommand('pattern', words)
      if (!this.take('|')) words.push(this.#readWord(PATTERN_END))
    }
  }

  /** Reads the redirects of a group. A pipe behind it is noticed, but not taken. */
  #readGroupEnd(groupLength: number): ShellCommand[] {
    const redirects = this.#readRedirects()
    const isPiped = /^\|(?!\|)/.test(this.rest())
    return redirects.length === 0 && !isPiped ? [] : [{ ...createCommand('words', []), redirects, groupLength }]
  }

  #readRedirects(): Redirect[] {
    const redirects: Redirect[] = []
    for (;;) {
      this.skipBlanks()
      if (!REDIRECT.test(this.rest())) return redirects
      redirects.push(this.#readRedirect())
    }
  }

  #readRedirect(): Redirect {
    const [matched = '', descriptor = '', operator = ''] = REDIRECT.exec(this.rest()) ?? []
    this.at += matched.length
    const redirect: Redirect = { descriptor, operator, target: this.#readNextWord() }
    if (operator === '<<' || operator === '<<-') {
      const delimiter = redirect.target.map((part) => (part.kind === 'text' ? part.text : '')).join('')
      const isQuoted = redirect.target.some((part) => part.kind !== 'text' || part.isQuoted)
      this.#heredocs.push({ redirect, delimiter, isQuoted, isStripped: operator === '<<-' })
    }
    return redirect
  }

  #readHeredocs(): void {
    for (const { redirect, delimiter, isQuoted, isStripped } of this.#heredocs.splice(0)) {
      const lines: string[] = []
      const isEnd = (line: string): boolean => (isStripped ? line.replace(/^\t+/, '') : line) === delimiter
      for (let line = this.#readLine(delimiter); !isEnd(line); line = this.#readLine(delimiter)) lines.push(line)
      redirect.target = parseHeredoc(lines.join('\n'), isQuoted)
    }
  }

  #readLine(delimiter: string): string {
    if (this.isAtEnd()) throw new UnreadableScript(`missing ${delimiter}`)
    const end = this.text.indexOf('\n', this.at)
    const line = this.text.slice(this.at, end === -1 ? undefined : end)
    this.at += line.length + 1
    return line
  }

  #readNextWord(): ShellWord {
    this.skipBlanks()
    return this.#readWord()
  }

  /** Reads one word. Throws where there is none. */
  #readWord(ends: ReadonlySet<string> = WORD_END): ShellWord {
    const parts: ShellWord = []
    const start = this.at
    while (!this.isAtEnd() && (!ends.has(this.peek()) || this.#isProcess())) {
      parts.push(...this.#readPart(false))
      if (this.peek() === '(' && /^\w+\+?=$/.test(plainText(parts) ?? '')) parts.push(this.#readArray())
    }
    if (this.at === start) throw new UnreadableScript(`unexpected ${JSON.stringify(this.peek())}`)
    return joinTexts(parts)
  }

  #isProcess = (): boolean => /^[<>]\(/.test(this.rest())

  #readArray(): WordPart {
    this.at += 1
    const words: ShellWord[] = []
    for (;;) {
      this.#skipBlanksAndLines()
      if (this.isAtEnd()) throw new UnreadableScript('missing ) of an array')
      if (this.take(')')) return { kind: 'array', words }
      words.push(this.#readWord())
    }
  }

  /** Reads to behind a double quote, or to the end of the text. */
  #readQuoted(end: '"' | undefined): WordPart[] {
    const parts: WordPart[] = [{ kind: 'text', text: '', isQuoted: true }]
    while (!this.isAtEnd()) {
      if (end !== undefined && this.take(end)) return parts
      parts.push(...(this.peek() === '\\' ? [this.#readEscape()] : this.#readPart(true)))
    }
    if (end !== undefined) throw new UnreadableScript(`missing ${end}`)
    return parts
  }

  /** Inside double quotes, a backslash is removed before a few characters only. */
  #readEscape(): WordPart {
    const [escaped = '\\'] = /^\\[$`"\\\n]/.exec(this.rest()) ?? []
    this.at += escaped.length
    return { kind: 'text', text: escaped === '\\\n' ? '' : escaped.slice(-1), isQuoted: true }
  }

  readAllQuoted(): WordPart[] {
    return joinTexts(this.#readQuoted(undefined))
  }

  #readPart(isQuoted: boolean): WordPart[] {
    const quoted = isQuoted ? undefined : this.#readUnquoted()
    if (quoted) return quoted
    if (this.take('`')) return [{ kind: 'substitution', commands: parseShell(this.#readBackquoted()), isQuoted }]
    if (this.take('$((')) return [{ kind: 'arithmetic', text: this.#readArithmetic(), isQuoted }]
    if (this.take('$(')) return [{ kind: 'substitution', commands: this.#readNested(), isQuoted }]
    if (this.take('${')) return [this.#readExpansion(isQuoted)]
    if (this.take('$[')) throw new UnreadableScript('$[')
    const [, name] = VARIABLE.exec(this.rest()) ?? []
    if (name === undefined) return [{ kind: 'text', text: this.next(), isQuoted }]
    this.at += 1 + name.length
    return [createVariable(name, isQuoted)]
  }

  /** Reads what has a meaning outside double quotes only. */
  #readUnquoted(): WordPart[] | undefined {
    if (this.take('<(') || this.take('>('))
      return [{ kind: 'substitution', commands: this.#readNested(), isQuoted: false, isFile: true }]
    if (this.take("$'")) return [this.#readSingleQuoted(/^(?:\\[\s\S]|[^'\\])*/)]
    if (this.take('$"') || this.take('"')) return this.#readQuoted('"')
    if (this.take("'")) return [this.#readSingleQuoted(/^[^']*/)]
    if (!this.take('\\')) return undefined
    const character = this.next()
    return [{ kind: 'text', text: character === '\n' ? '' : character, isQuoted: true }]
  }

  /** Here-documents of a substitution end inside it. */
  #readNested(): ShellCommand[] {
    const pending = this.#heredocs.splice(0)
    const commands = this.readCommands(')')
    this.#heredocs.push(...pending)
    return commands
  }

  #readSingleQuoted(pattern: RegExp): WordPart {
    const [text = ''] = pattern.exec(this.rest()) ?? []
    this.at += text.length
    if (!this.take("'")) throw new UnreadableScript("missing '")
    return { kind: 'text', text, isQuoted: true }
  }

  #readBackquoted(): string {
    const [text = ''] = /^(?:\\[\s\S]|[^`\\])*/.exec(this.rest()) ?? []
    this.at += text.length
    if (!this.take('`')) throw new UnreadableScript('missing `')
    return text.replace(/\\([$`\\])/g, '$1')
  }

  #readArithmetic(): string {
    const start = this.at
    for (let depth = 0; !this.isAtEnd(); this.at += 1) {
      if (depth === 0 && this.rest().startsWith('))')) {
        this.at += 2
        return this.text.slice(start, this.at - 2)
      }
      if (this.peek() === '(') depth += 1
      if (this.peek() === ')') depth -= 1
    }
    throw new UnreadableScript('missing ))')
  }

  #readExpansion(isQuoted: boolean): WordPart {
    const [prefix = ''] = /^[!#](?=[\w@*?])/.exec(this.rest()) ?? []
    this.at += prefix.length
    const [name] = NAME.exec(this.rest()) ?? []
    if (name === undefined) throw new UnreadableScript('${')
    this.at += name.length
    const start = this.at
    const nested: WordPart[] = []
    while (!this.take('}')) {
      if (this.isAtEnd()) throw new UnreadableScript('missing }')
      if (this.peek() === '"') {
        this.at += 1
        nested.push(...this.#readQuoted('"'))
      } else nested.push(...this.#readPart(isQuoted))
    }
    const rest = this.text.slice(start, this.at - 1)
    const operator = prefix === '#' ? `${LENGTH}${rest}` : prefix + rest
    return { kind: 'variable', name, operator, nested: joinTexts(nested), isQuoted }
  }

  #skipBlanksAndLines(): void {
    this.skipBlanks()
    while (this.take('\n')) {
      this.#readHeredocs()
      this.skipBlanks()
    }
  }
}

const TEST_END = new Set([' ', '\t', '\n', '\r'])
const PATTERN_END = new Set([' ', '\t', '\n', '\r', '|', ')'])
/** Matches a command, or a group that contains one, that ends the script or the function. */
const ENDS_SCRIPT = /^\s*(?:\{[^}]*?[\s;])?(?:exit|return)\b/

const parseHeredoc = (text: string, isQuoted: boolean): WordPart[] =>
  isQuoted ? [{ kind: 'text', text, isQuoted }] : new ShellParser(text).readAllQuoted()

function markLast(commands: ShellCommand[], mark: 'isDecisive' | 'isPiped'): true {
  const last = commands.at(-1)
  if (last) last[mark] = true
  return true
}
