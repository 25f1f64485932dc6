import { z } from 'zod'
import { PATCH_SECTION, unquotePath } from '../candidates/read-diffs.ts'

/** A file that the solution changes, in latin1, so that no byte is lost. Null: the file does not exist on that side. */
export type SolutionFile = { path: string; before: string | null; after: string | null }

/** Replaces a text that occurs exactly once. */
export const TextEdit = z.strictObject({
  path: z.string().max(500),
  find: z.string().min(1).max(8_000),
  replace: z.string().max(8_000),
})
export type TextEdit = z.infer<typeof TextEdit>

type EditedSolution = { kind: 'applied'; patch: string } | { kind: 'faulty'; fault: string }

/** Applies edits to the files of a solution. Returns the whole solution as a patch in latin1. */
export function applyEdits(source: string, files: readonly SolutionFile[], edits: readonly TextEdit[]): EditedSolution {
  const texts = new Map(files.flatMap(({ path, after }) => (after === null ? [] : [[path, after] as const])))
  for (const { path, find, replace } of edits) {
    const pieces = texts.get(path)?.split(encode(find))
    if (!pieces) return { kind: 'faulty', fault: `The solution has no file ${JSON.stringify(path)}.` }
    if (pieces.length !== 2)
      return {
        kind: 'faulty',
        fault: `The text to replace occurs ${pieces.length - 1} times in ${path}: ${JSON.stringify(find.slice(0, 160))}.`,
      }
    texts.set(path, pieces.join(encode(replace)))
  }
  const editedPaths = new Set(edits.map(({ path }) => path))
  const unchangedSections = source.split(PATCH_SECTION).filter((section) => !editedPaths.has(readPath(section)))
  const rewritten = files
    .filter(({ path }) => editedPaths.has(path))
    .map(({ path, before }) => rewriteFile(path, before, texts.get(path) ?? ''))
  return { kind: 'applied', patch: [...unchangedSections, ...rewritten].join('') }
}

/** Encodes a text as latin1 with one character per UTF-8 byte, like the files. */
const encode = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

/** Returns the path of the file that a section of a patch changes. */
function readPath(section: string): string {
  const printed = /^\+\+\+ (.*)$/m.exec(section)?.[1] ?? ''
  return unquotePath(printed.replace(/\t$/, '')).slice(2)
}

/** Returns a patch that replaces a whole file. */
function rewriteFile(path: string, before: string | null, after: string): string {
  if (before === after) return ''
  const [removed, added] = [toPatchLines(before ?? '', '-'), toPatchLines(after, '+')]
  const range = (count: number) => `${count === 0 ? 0 : 1},${count}`
  const from = before === null ? '/dev/null' : `"a/${escapePath(path)}"`
  return [
    `diff --git "a/${escapePath(path)}" "b/${escapePath(path)}"\n`,
    before === null ? 'new file mode 100644\n' : '',
    `--- ${from}\n+++ "b/${escapePath(path)}"\n`,
    `@@ -${range(removed.count)} +${range(added.count)} @@\n${removed.text}${added.text}`,
  ].join('')
}

const escapePath = (path: string): string => encode(path).replaceAll(/["\\]/g, '\\$&')

/** Returns the lines of a file as a patch removes or adds them, and their number. */
function toPatchLines(text: string, sign: '-' | '+'): { text: string; count: number } {
  if (text === '') return { text: '', count: 0 }
  const lines = text.replace(/\n$/, '').split('\n')
  const end = text.endsWith('\n') ? '' : '\\ No newline at end of file\n'
  return { text: lines.map((line) => `${sign}${line}\n`).join('') + end, count: lines.length }
}
