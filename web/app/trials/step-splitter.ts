// Character codes.
const QUOTE = 34
const BACKSLASH = 92
const OPEN_ARRAY = 91
const CLOSE_ARRAY = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/**
 * Splits the text of a trajectory into its steps while it arrives, so that the first steps are shown before the last ones
 * are read, and the thread is never blocked for long. The text is untrusted.
 */
export class StepSplitter {
  /** Text that is still needed: the current step, or the text outside of `steps` since the last cut. */
  #text = ''
  #position = 0
  #depth = 0
  #isInString = false
  #stringStart = 0
  /** The last string in the outermost object, a key or a value. */
  #lastString = ''
  #isInSteps = false
  #stepStart = -1
  #textBeforeSteps = ''
  #steps: unknown[] = []

  /** Takes the next part of the text and returns the steps that it completes. */
  push(part: string): unknown[] {
    this.#text += part
    while (this.#position < this.#text.length) {
      if (this.#isInString) this.#skipString()
      else this.#readCharacter(this.#text.charCodeAt(this.#position))
    }
    if (this.#isInSteps) this.#cut(this.#stepStart < 0 ? this.#position : this.#stepStart)
    const completed = this.#steps
    this.#steps = []
    return completed
  }

  /** Returns the trajectory without its steps. Throws if the text was not JSON. */
  end(): unknown {
    return JSON.parse(this.#textBeforeSteps + this.#text)
  }

  /** Moves behind the string that the position is in. Stays in it if its end has not arrived. */
  #skipString(): void {
    while (this.#position < this.#text.length) {
      const code = this.#text.charCodeAt(this.#position)
      this.#position += code === BACKSLASH ? 2 : 1
      if (code !== QUOTE) continue
      this.#isInString = false
      if (this.#depth === 1) this.#lastString = this.#text.slice(this.#stringStart, this.#position - 1)
      return
    }
  }

  #readCharacter(code: number): void {
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) this.#open(code)
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) this.#close()
    else {
      this.#position += 1
      if (code !== QUOTE) return
      this.#isInString = true
      this.#stringStart = this.#position
    }
  }

  #open(code: number): void {
    if (this.#isInSteps && this.#depth === 2) this.#stepStart = this.#position
    this.#depth += 1
    this.#position += 1
    if (this.#depth !== 2 || code !== OPEN_ARRAY || this.#lastString !== 'steps') return
    this.#isInSteps = true
    this.#textBeforeSteps += this.#text.slice(0, this.#position)
    this.#cut(this.#position)
  }

  #close(): void {
    this.#depth -= 1
    this.#position += 1
    if (this.#isInSteps && this.#depth === 2 && this.#stepStart >= 0) {
      this.#steps.push(JSON.parse(this.#text.slice(this.#stepStart, this.#position)))
      this.#stepStart = -1
    }
    if (!this.#isInSteps || this.#depth !== 1) return
    this.#isInSteps = false
    this.#lastString = ''
    this.#cut(this.#position - 1)
  }

  /** Drops the text before an index. */
  #cut(index: number): void {
    this.#text = this.#text.slice(index)
    this.#position -= index
    this.#stringStart -= index
    if (this.#stepStart >= 0) this.#stepStart -= index
  }
}
