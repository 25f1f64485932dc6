import { dirname, join, normalize } from 'node:path'

const FENCE = /^```[\s\S]*?^```$/gm
const INLINE = /`([^`\n]+)`/g
const LINK = /\]\(([^)\s]+)\)/g
const PATH =
  /^(?:src|cli|web|bin|test|bench|scripts|migrations|docs|samples|skills|sdk|ci|deploy|packages|\.ci)\/[\w./-]*$/

/** Lists paths in a page that do not exist: in inline code, in fenced blocks and in links. */
export function listMissingPaths(page: string, text: string, exists: (path: string) => boolean): string[] {
  const prose = text.replaceAll(FENCE, '')
  const inlineCode = [...prose.matchAll(INLINE)].map(([, code = '']) => code)
  const words = [...(text.match(FENCE) ?? []), ...inlineCode].flatMap((code) => code.split(/[\s'"`,;:()]+/))
  const named = words.filter((word) => PATH.test(word))
  const linked = [...prose.matchAll(LINK)]
    .map(([, target = '']) => target.replace(/#.*$/, ''))
    .filter((target) => target !== '' && !/^[a-z]+:/.test(target))
    .map((target) => normalize(join(dirname(page), target)))
  return [...new Set([...named, ...linked])]
    .filter((path) => !exists(path))
    .map((path) => `${page} names ${path}, which does not exist.`)
}
