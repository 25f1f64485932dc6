/** One word of a shell's line, whatever is in it. */
export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

export const line = (...words: string[]): string => words.map(quote).join(' ')
