/**
 * Returns true if a sed script only reads and prints. Only known commands count: `e` starts programs, `w` and `W` write
 * files, and so do the flags of the same names.
 */
export function isReadingSedScript(script: string): boolean {
  for (let rest = script; ; ) {
    rest = rest.replace(/^[\s;}]+/, '')
    if (rest === '') return true
    const command = skipAddresses(rest)
    const next = command && skipCommand(command)
    if (next === undefined) return false
    rest = next
  }
}

/** Returns what follows up to two addresses. Undefined: an address is not known. */
function skipAddresses(text: string): string | undefined {
  const first = skipAddress(text)
  if (first === undefined) return undefined
  const [comma] = /^\s*,\s*/.exec(first) ?? []
  const rest = comma === undefined ? first : skipAddress(first.slice(comma.length).replace(/^[+~](?=\d)/, ''))
  return rest?.replace(/^[\s!]+/, '')
}

function skipAddress(text: string): string | undefined {
  const [number] = /^(?:\d+(?:~\d+)?|\$)/.exec(text) ?? []
  if (number !== undefined) return text.slice(number.length)
  if (text.startsWith('/')) return skipDelimited(text.slice(1), '/')?.replace(/^[IM]+/, '')
  if (text.startsWith('\\')) return skipDelimited(text.slice(2), text.charAt(1))?.replace(/^[IM]+/, '')
  return text
}

function skipCommand(text: string): string | undefined {
  const name = text.charAt(0)
  const rest = text.slice(1)
  if (name === '{') return rest
  if (name === 's' || name === 'y') {
    const delimiter = rest.charAt(0)
    const pattern = skipDelimited(rest.slice(1), delimiter)
    const replacement = pattern === undefined ? undefined : skipDelimited(pattern, delimiter)
    return replacement === undefined ? undefined : requireEnd(replacement.replace(/^[gpiIMm\d]+/, ''))
  }
  if (/[qQlL]/.test(name)) return requireEnd(rest.replace(/^ *\d+/, ''))
  if (/[btT:]/.test(name)) return requireEnd(rest.replace(/^ *\w*/, ''))
  return /[pPdDnNgGhHxz=]/.test(name) ? requireEnd(rest) : undefined
}

/** Returns the text if a command may end before it: at a semicolon, a line end or a closing brace. */
const requireEnd = (text: string): string | undefined => (/^\s*(?:[;}\n]|$)/.test(text) ? text : undefined)

/**
 * Returns what follows the next delimiter. Implementations disagree about a delimiter inside brackets, so undefined is
 * returned for it.
 */
function skipDelimited(text: string, delimiter: string): string | undefined {
  if (delimiter === '' || delimiter === '\\' || delimiter === '\n') return undefined
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === delimiter) {
      const isInBrackets = /\[[^\]]*$/.test(text.slice(0, at).replaceAll(/\\[\s\S]/g, ''))
      return isInBrackets ? undefined : text.slice(at + 1)
    }
  }
  return undefined
}
