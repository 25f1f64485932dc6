/** A part of a shell word. If `isQuoted`, it is neither split into words nor expanded to file names. */
export type WordPart =
  | { kind: 'text'; text: string; isQuoted: boolean }
  /** `operator` is what follows the name inside `${…}`, and `nested` the words in it. */
  | { kind: 'variable'; name: string; operator: string; nested: WordPart[]; isQuoted: boolean }
  /** `isFile`: `<( )`, which stands for a file with the output. */
  | { kind: 'substitution'; commands: ShellCommand[]; isQuoted: boolean; isFile?: boolean }
  | { kind: 'arithmetic'; text: string; isQuoted: boolean }
  | { kind: 'array'; words: ShellWord[] }

export type ShellWord = WordPart[]

/** `descriptor` is what stands before the operator: a number, `{name}`, or nothing. */
export type Redirect = { descriptor: string; operator: string; target: ShellWord }

/**
 * A command of a script, without the control structure around it. `test`: `[[ … ]]`; `loop`: the head of a `for` loop, with
 * the variable as its first word; `words`: words that are expanded but not run; `pattern`: the patterns of a case clause;
 * `function`: a definition, with its name.
 */
export type ShellCommand = {
  kind: 'simple' | 'test' | 'arithmetic' | 'loop' | 'words' | 'pattern' | 'function'
  words: ShellWord[]
  redirects: Redirect[]
  /** Text of an arithmetic command, or name of a function. */
  text: string
  /** Commands of a function. */
  body: ShellCommand[]
  /** The output is the input of the next command. */
  isPiped: boolean
  /** Set after a group, a loop or a condition: redirects and a pipe apply to this many commands before it. */
  groupLength?: number | undefined
}

/** Operator of `${#name}`. */
export const LENGTH = 'length'

/** Returns the text of a word without expansions. Undefined: it has some. */
export const plainText = (word: ShellWord): string | undefined =>
  word.every((part) => part.kind === 'text')
    ? word.map((part) => (part.kind === 'text' ? part.text : '')).join('')
    : undefined

/** Returns the texts of a word that are not quoted. */
export const unquotedText = (word: ShellWord): string =>
  word.map((part) => (part.kind === 'text' && !part.isQuoted ? part.text : '')).join('')

export const command = (kind: ShellCommand['kind'], words: ShellWord[], text = ''): ShellCommand => ({
  kind,
  words,
  redirects: [],
  text,
  body: [],
  isPiped: false,
})

export const variable = (name: string, isQuoted = true): WordPart => ({
  kind: 'variable',
  name,
  operator: '',
  nested: [],
  isQuoted,
})

/** Joins adjacent texts that are quoted alike. */
export function joinTexts(parts: WordPart[]): WordPart[] {
  const joined: WordPart[] = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (last?.kind === 'text' && part.kind === 'text' && last.isQuoted === part.isQuoted)
      joined[joined.length - 1] = { ...last, text: last.text + part.text }
    else joined.push(part)
  }
  return joined
}
