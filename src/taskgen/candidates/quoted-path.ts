const ESCAPES: Record<string, string> = { a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' }

/**
 * Decodes a path as git prints it: plain, or in quotes with escapes. Bytes that are not UTF-8 become replacement
 * characters.
 */
export function unquotePath(printed: string): string {
  if (!printed.startsWith('"')) return printed
  const bytes = printed
    .slice(1, -1)
    .replaceAll(/\\([0-7]{3}|.)/g, (_, code: string) =>
      code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
    )
  return Buffer.from(bytes, 'latin1').toString('utf8')
}
