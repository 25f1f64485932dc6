/** Thrown for a text that is not a shell script, or uses syntax that the parser does not know. */
export class UnreadableScript extends Error {}

/** Characters that end an unquoted word. */
export const WORD_END: ReadonlySet<string> = new Set([' ', '\t', '\n', '\r', ';', '&', '|', '(', ')', '<', '>'])

/** Maximum length of a token, so that a scan of the whole script stays linear. */
const TOKEN_LENGTH_MAX = 100_000

/** A position in the text of a script. */
export class ShellCursor {
  protected at = 0
  protected readonly text: string

  constructor(text: string) {
    this.text = text
  }

  protected isAtEnd(): boolean {
    return this.at >= this.text.length
  }

  /** Returns the text from here on, up to the maximum length of a token. */
  protected rest(): string {
    return this.text.slice(this.at, this.at + TOKEN_LENGTH_MAX)
  }

  protected peek(): string {
    return this.text.charAt(this.at)
  }

  protected next(): string {
    const character = this.peek()
    this.at += 1
    return character
  }

  protected take(text: string): boolean {
    if (!this.text.startsWith(text, this.at)) return false
    this.at += text.length
    return true
  }

  /** Takes a word of the shell's grammar, which must stand alone. */
  protected takeKeyword(word: string): boolean {
    const after = this.text.charAt(this.at + word.length)
    return (after === '' || WORD_END.has(after)) && this.take(word)
  }

  /** Skips blanks, continued lines and a comment. */
  protected skipBlanks(): void {
    const [blanks = ''] = /^(?:[ \t\r]|\\\n)*(?:#[^\n]*)?/.exec(this.rest()) ?? []
    this.at += blanks.length
  }
}
