/** NUL characters and halves of surrogate pairs, as JSON.stringify writes them. Other escapes are passed over whole. */
const ESCAPES = /\\(?:u(0000|d[89a-f][0-9a-f]{2})|.)/gs

/** JSON of untrusted values, with U+FFFD in the place of characters that PostgreSQL does not store. Also in keys. */
export const storableJson = (value: unknown): string =>
  JSON.stringify(value).replace(ESCAPES, (whole, refused?: string) => (refused === undefined ? whole : '\ufffd'))

/** The same for a text column. */
export const storableText = (text: string): string => text.replaceAll('\0', '\ufffd').toWellFormed()
