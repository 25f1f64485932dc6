/** Quotes a word for a shell. */
export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

/** Builds a shell command from its words, each quoted. */
export const shellCommand = (...words: string[]): string => words.map(quote).join(' ')
