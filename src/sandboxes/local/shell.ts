/** Quotes a word for a shell. */
export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

export const line = (...words: string[]): string => words.map(quote).join(' ')
