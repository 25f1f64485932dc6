// Character codes: comparing numbers is faster than comparing texts.
const QUOTE = 34
const BACKSLASH = 92
const OPEN_ARRAY = 91
const CLOSE_ARRAY = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/**
 * Splits the JSON of a trajectory into the entries of its array `steps` while the text arrives. The first steps can be
 * shown before the last ones have arrived, and no call blocks the thread for long. The text is untrusted.
 */
export class StepSplitter {
  /** Text that is still needed: the current step, or the text outside of `steps` since the last cut. */
  #text = ''
  /** Index of the next character in `#text`. */
  #position = 0
  /** Number of open objects and arrays. The entries of `steps` begin at depth 2. */
  #depth = 0
  #isInString = false
  #stringStart = 0
  /** The last string in the outermost object, a key or a value. */
  #lastString = ''
  #isInSteps = false
  /** Index in `#text` at which the current step begins. -1 between two steps. */
  #stepStart = -1
  #textBeforeSteps = ''
  /** Steps that are complete but not yet returned. */
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

  /** Moves the position behind the current string, or to the end of the text if the string continues in the next part. */
  #skipString(): void {
    while (this.#position < this.#text.length) {
      const code = this.#text.charCodeAt(this.#position)
      // The character after a backslash is escaped and cannot end the string.
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
    const isStepsArray = this.#depth === 2 && code === OPEN_ARRAY && this.#lastString === 'steps'
    if (!isStepsArray) return
    this.#isInSteps = true
    this.#textBeforeSteps += this.#text.slice(0, this.#position)
    this.#cut(this.#position)
  }

  #close(): void {
    this.#depth -= 1
    this.#position += 1
    const isEndOfStep = this.#isInSteps && this.#depth === 2 && this.#stepStart >= 0
    if (isEndOfStep) {
      this.#steps.push(JSON.parse(this.#text.slice(this.#stepStart, this.#position)))
      this.#stepStart = -1
    }
    const isEndOfSteps = this.#isInSteps && this.#depth === 1
    if (!isEndOfSteps) return
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
