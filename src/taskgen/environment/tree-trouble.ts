/** Names that git refuses to check out: they leave the tree or write into `.git`. */
const FORBIDDEN = /^(?:\.{0,2}|\.git[. ]*|git~1)$/i
/** Marks that some systems do not see. */
const UNSEEN = /[\u200c-\u200f\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff]/g
const REPLACED = '\ufffd'

/** Returns the first fault of an untrusted tree, or undefined if it can be written to disk. */
export function findTreeFault(paths: readonly string[]): string | undefined {
  const seen = new Set<string>()
  const folders = new Set<string>()
  for (const path of paths) {
    const parts = path.split('/')
    const shown = JSON.stringify(path.slice(0, 200))
    if (path.includes(REPLACED)) return `A file name is not UTF-8: ${shown}.`
    if (parts.some((part) => FORBIDDEN.test(part.replaceAll(UNSEEN, ''))))
      return `No checkout would write this name: ${shown}.`
    if (seen.has(path)) return `Two files have one name: ${shown}.`
    seen.add(path)
    for (let at = 1; at < parts.length; at += 1) folders.add(parts.slice(0, at).join('/'))
  }
  const both = paths.find((path) => folders.has(path))
  return both === undefined ? undefined : `A file and a folder have one name: ${JSON.stringify(both.slice(0, 200))}.`
}
