/**
 * Characters that control a terminal, or that reorder or break a line: C0 and C1 controls (with them every ANSI and OSC
 * sequence), bidirectional controls, line and paragraph separators and lone surrogates. Also characters without a
 * glyph, which make two different names look the same. Joiners and variation selectors are unsafe only at the start and
 * after ASCII, Latin, Greek, Cyrillic or another joiner, except in keycaps such as 1️⃣: emoji and other scripts need them.
 */
const UNSAFE_CHARACTERS =
  /[[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u{fff9}-\u{fffb}]--[\u{200c}\u{200d}\u{fe00}-\u{fe0f}]]|(?<=^|[\p{ASCII}\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\u{200c}\u{200d}])[\u{200c}\u{200d}\u{fe00}-\u{fe0f}](?!\u{20e3})/gv

/** Matches text without unsafe characters, on one or several lines. */
const PLAIN_TEXT = /^[\n\x20-\x7e]*$/

/** Makes untrusted text safe to show within one line of a terminal, a log or a file. Line breaks are replaced too. */
export const printable = (text: string, replacement = '�'): string => text.replaceAll(UNSAFE_CHARACTERS, replacement)

/** Sequences that set colours, move the cursor or name a window. An unterminated sequence ends with its line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequences consist of control characters
const ANSI = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b\n]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\^_]/gu

/** Makes untrusted text safe to show on a page: its unsafe characters are replaced by their names, such as [U+202E]. */
export const replaceUnsafeCharacters = (text: string): string =>
  // Pages show thousands of texts, most of them plain. Compiling the full pattern alone delays a page noticeably.
  PLAIN_TEXT.test(text)
    ? text
    : text.replaceAll(UNSAFE_CHARACTERS, (character) =>
        character === '\n' || character === '\t'
          ? character
          : `[U+${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0').toUpperCase()}]`,
      )

/** Removes ANSI and OSC sequences. Other control characters stay. */
export const stripAnsi = (text: string): string => (text.includes('\u001b') ? text.replaceAll(ANSI, '') : text)

/** Escapes unsafe characters in JSON text. Parsing it gives the same value as before. */
export const escapeJson = (json: string): string =>
  PLAIN_TEXT.test(json)
    ? json
    : json.replaceAll(UNSAFE_CHARACTERS, (character) => (character === '\n' ? '\n' : escapeCharacter(character)))

const escapeCharacter = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('')
