import { unquotePath } from '../candidates/read-diffs.ts'

/** Lines that a patch adds to one file, in contiguous blocks. */
export type PatchedFile = { path: string; isNew: boolean; blocks: string[] }

const SECTION = /^(?=diff --git )/m
const NAME = /^\+\+\+ (?:"b\/|b\/)(.*?)\t?$/m
const FILES_MAX = 1000

/** Parses a git patch that was decoded as latin1. Deleted and binary files are left out. */
export function parsePatch(patch: string): PatchedFile[] {
  return patch
    .split(SECTION)
    .slice(0, FILES_MAX)
    .flatMap((section) => parseSection(section) ?? [])
}

function parseSection(section: string): PatchedFile | undefined {
  const at = section.search(/^@@ /m)
  const head = at < 0 ? section : section.slice(0, at)
  const name = NAME.exec(head)
  if (at < 0 || !name) return undefined
  const printed = name[0].startsWith('+++ "') ? `"${name[1]}` : (name[1] ?? '')
  return { path: unquotePath(printed), isNew: /^new file mode /m.test(head), blocks: parseBlocks(section.slice(at)) }
}

function parseBlocks(hunks: string): string[] {
  const blocks: string[] = []
  let open: string[] = []
  for (const line of [...hunks.split('\n'), '']) {
    if (line.startsWith('+')) {
      open.push(line.slice(1))
    } else if (open.length > 0 && !line.startsWith('-')) {
      blocks.push(decodeText(open.join('\n')))
      open = []
    }
  }
  return blocks
}

/** Decodes the UTF-8 in a text that was read as latin1, one character per byte. */
export const decodeText = (latin1: string): string =>
  Buffer.from(latin1, 'latin1').toString('utf8').replaceAll('\r', '')
