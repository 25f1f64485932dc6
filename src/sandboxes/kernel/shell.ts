/** Search path for programs of this machine, and of sandboxes whose image sets none. */
export const STANDARD_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Quotes a word for a shell. */
export const quote = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`

/** Builds a shell command from its words, each quoted. */
export const renderCommand = (...words: string[]): string => words.map(quote).join(' ')
