import { classifyPath } from '../../grading/path-kinds.ts'
import { unquotePath } from './quoted-path.ts'

/** Three patches that together are the one: what the agent has to find, what judges it, and what neither needs. */
export type SplitPatch = { source: string; test: string; rest: string }

const HEADER = 'diff --git '

/**
 * Splits what `git diff-tree -p --binary --full-index --no-renames` printed, as latin1 so that no byte is lost. Whole
 * files go one way. Without renames no part needs another, so that they can be applied in any order.
 */
export function splitPatch(patch: string): SplitPatch {
  const split: SplitPatch = { source: '', test: '', rest: '' }
  // A line of a hunk begins with a sign, and git quotes line ends in names: only git itself writes this.
  for (const section of patch.split(/^(?=diff --git )/m)) {
    if (section.startsWith(HEADER)) split[classifySection(section)] += section
  }
  return split
}

function classifySection(section: string): keyof SplitPatch {
  const names = section.slice(HEADER.length, section.indexOf('\n'))
  // The two names differ only in their prefix, so each is one half of the line.
  const old = names.slice(0, (names.length - 1) / 2)
  const kind = classifyPath(unquotePath(old).replace(/^a\//, ''))
  return kind === 'source' || kind === 'test' ? kind : 'rest'
}
