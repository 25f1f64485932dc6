import { dirname, join, normalize } from 'node:path'

const FENCED_BLOCK = /^```[\s\S]*?^```$/gm
const INLINE_CODE = /`([^`\n]+)`/g
const LINK = /\]\(([^)\s]+)\)/g
/** Matches a path that begins with a folder of the project. */
const PROJECT_PATH =
  /^(?:src|cli|web|bin|test|bench|scripts|migrations|docs|samples|skills|sdk|ci|deploy|packages|\.ci)\/[\w./-]*$/

/** Lists paths in a page that do not exist: in inline code, in fenced blocks and in links. */
export function listMissingPaths(page: string, text: string, exists: (path: string) => boolean): string[] {
  const prose = text.replaceAll(FENCED_BLOCK, '')
  const inlineCode = [...prose.matchAll(INLINE_CODE)].map(([, code = '']) => code)
  const words = [...(text.match(FENCED_BLOCK) ?? []), ...inlineCode].flatMap((code) => code.split(/[\s'"`,;:()]+/))
  const pathsInCode = words.filter((word) => PROJECT_PATH.test(word))
  const pathsInLinks = [...prose.matchAll(LINK)]
    .map(([, target = '']) => target.replace(/#.*$/, ''))
    .filter((target) => target !== '' && !/^[a-z]+:/.test(target))
    .map((target) => normalize(join(dirname(page), target)))
  return [...new Set([...pathsInCode, ...pathsInLinks])]
    .filter((path) => !exists(path))
    .map((path) => `${page} names ${path}, which does not exist.`)
}
