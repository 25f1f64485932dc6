import { structuredPatch } from 'diff'

/** Lines around each change. */
const CONTEXT = 3
/** Texts that differ in more lines than this are shown as removed and added as a whole. */
const EDITS_MAX = 1000

/**
 * Work that all diffs of a trial may still do together, so that no agent can keep the process busy. A diff with n changed
 * lines costs n² of it: the running time of the algorithm.
 */
export type Effort = { left: number }

/** Returns the hunks of a unified diff, or an empty text if nothing differs. */
export function unifiedDiff(before: string, after: string, effort: Effort): string {
  const maxEditLength = Math.min(EDITS_MAX, Math.floor(Math.sqrt(Math.max(0, effort.left))))
  const patch = structuredPatch('', '', before, after, '', '', { context: CONTEXT, maxEditLength })
  if (!patch) {
    effort.left -= maxEditLength ** 2
    return replaceAll(before, after)
  }
  const changed = patch.hunks.flatMap(({ lines }) => lines).filter((line) => !line.startsWith(' ')).length
  effort.left -= changed ** 2
  return patch.hunks
    .map(({ oldStart, oldLines, newStart, newLines, lines }) => {
      const oldRange = `${oldLines === 0 ? oldStart - 1 : oldStart},${oldLines}`
      const newRange = `${newLines === 0 ? newStart - 1 : newStart},${newLines}`
      return `@@ -${oldRange} +${newRange} @@\n${lines.join('\n')}\n`
    })
    .join('')
}

/** Returns one hunk that removes all lines of one text and adds all lines of the other. */
function replaceAll(before: string, after: string): string {
  const [removed, added] = [splitLines(before), splitLines(after)]
  const ranges = `-${removed.length === 0 ? 0 : 1},${removed.length} +${added.length === 0 ? 0 : 1},${added.length}`
  return `@@ ${ranges} @@\n${markLines('-', removed)}${markLines('+', added)}`
}

const splitLines = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+/g) ?? []

const markLines = (sign: '-' | '+', lines: readonly string[]): string =>
  lines.map((line) => sign + (line.endsWith('\n') ? line : `${line}\n\\ No newline at end of file\n`)).join('')
