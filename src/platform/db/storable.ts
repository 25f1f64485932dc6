/** Matches NUL and lone surrogates as JSON.stringify escapes them. Other escapes match as a whole and are kept. */
const ESCAPES = /\\(?:u(0000|d[89a-f][0-9a-f]{2})|.)/gs

/** Serialises untrusted values, keys included, with U+FFFD for the characters that PostgreSQL cannot store. */
export const storableJson = (value: unknown): string =>
  JSON.stringify(value).replace(ESCAPES, (whole, unstorable?: string) => (unstorable === undefined ? whole : '\ufffd'))

/** Replaces the characters that PostgreSQL cannot store in a text column with U+FFFD. */
export const storableText = (text: string): string => text.replaceAll('\0', '\ufffd').toWellFormed()
