/** Returns the index of a whole-word match, or -1. */
export function indexOfWord(text: string, wanted: string): number {
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) {
    if (!isJoined(text[at - 1], wanted[0]) && !isJoined(text[at + wanted.length], wanted.at(-1))) return at
  }
  return -1
}

const isJoined = (outside = '', edge = ''): boolean => /\w/.test(outside) && /\w/.test(edge)
