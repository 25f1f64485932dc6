const CHARS_MAX = 200

/** A name that a stranger gave, as the database can keep it: short, and without what is no text. */
export const nameOf = <T extends string | null>(name: T): T | string =>
  typeof name === 'string' ? name.slice(0, CHARS_MAX).replace(UNPRINTABLE, '\ufffd').toWellFormed() : name

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f]/g
