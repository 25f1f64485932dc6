/**
 * Whether a path is left out, as `tar --exclude` has it: a pattern may begin at any folder of the path, `*` goes over
 * slashes, and what is below something excluded is excluded too.
 */
export function isExcluded(path: string, patterns: readonly string[]): boolean {
  const parts = path.split('/')
  return patterns.some((pattern) => {
    const tokens = tokensOf(pattern.replace(/\/+$/, ''))
    return parts.some((_, start) =>
      parts.slice(start).some((_part, length) => matches(tokens, parts.slice(start, start + length + 1).join('/'))),
    )
  })
}

type Token = '*' | ((character: string) => boolean)

const TOKEN = /\[[!^]?.[^\]]*\]|\\.|./gsu

const tokensOf = (pattern: string): Token[] => (pattern.match(TOKEN) ?? []).map(tokenOf)

function tokenOf(text: string): Token {
  if (text === '*') return text
  if (text === '?') return () => true
  if (text.length > 2 && text.startsWith('[')) return classOf([...text.slice(1, -1)])
  const literal = text.length > 1 && text.startsWith('\\') ? text.slice(1) : text
  return (character) => character === literal
}

function classOf(inner: string[]): (character: string) => boolean {
  const negated = inner[0] === '!' || inner[0] === '^'
  const members = negated ? inner.slice(1) : inner
  const isIn = (character: string): boolean =>
    members.some((member, at) => {
      const [dash, last] = [members[at + 1], members[at + 2]]
      if (dash === '-' && last !== undefined) return member <= character && character <= last
      return member === character
    })
  return (character) => isIn(character) !== negated
}

/** In the time of the text times the pattern, whatever both are: after a mismatch only the last star is tried again. */
function matches(tokens: Token[], text: string): boolean {
  const characters = [...text]
  let [token, at, star, retry] = [0, 0, -1, 0]
  while (at < characters.length) {
    const current = tokens[token]
    if (current === '*') {
      star = token
      token += 1
      retry = at
    } else if (current?.(characters[at] ?? '')) {
      token += 1
      at += 1
    } else if (star === -1) {
      return false
    } else {
      token = star + 1
      retry += 1
      at = retry
    }
  }
  return tokens.slice(token).every((each) => each === '*')
}
