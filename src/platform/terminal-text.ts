/**
 * Characters that command a terminal, reorder a line or break it: C0 and C1 controls (with them every ANSI and OSC
 * sequence), bidirectional controls, line and paragraph separators, lone surrogates, and invisible tags.
 */
const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u{feff}\u{fff9}-\u{fffb}\u{e0000}-\u{e007f}]/gu

/** Makes untrusted text safe to show within one line of a terminal or a log. Line breaks are replaced too. */
export const printable = (text: string): string => text.replaceAll(UNSAFE, '�')

/** Escapes the same characters in JSON text. The value stays the same: JSON reads an escape as its character. */
export const escapeJson = (json: string): string =>
  PLAIN.test(json) ? json : json.replaceAll(UNSAFE, (character) => (character === '\n' ? '\n' : escaped(character)))

const PLAIN = /^[\n\x20-\x7e]*$/

const escaped = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('')
