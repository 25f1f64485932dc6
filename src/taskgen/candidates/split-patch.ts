import { kindOf } from '../../grading/path-kinds.ts'
import { pathOf } from './quoted-path.ts'

/** Three patches that together are the one: what the agent has to find, what judges it, and what neither needs. */
export type Split = { source: string; test: string; rest: string }

const HEADER = 'diff --git '

/**
 * Splits what `git diff-tree -p --binary --full-index --no-renames` printed, as latin1 so that no byte is lost. Whole
 * files go one way. Without renames no part needs another, so that they can be applied in any order.
 */
export function splitPatch(patch: string): Split {
  const split: Split = { source: '', test: '', rest: '' }
  // A line of a hunk begins with a sign, and git quotes line ends in names: only git itself writes this.
  for (const section of patch.split(/^(?=diff --git )/m)) {
    if (section.startsWith(HEADER)) split[partOf(section)] += section
  }
  return split
}

function partOf(section: string): keyof Split {
  const names = section.slice(HEADER.length, section.indexOf('\n'))
  // Without renames both names are the same but for their first letter, so that each is one half.
  const old = names.slice(0, (names.length - 1) / 2)
  const kind = kindOf(pathOf(old).replace(/^a\//, ''))
  return kind === 'source' || kind === 'test' ? kind : 'rest'
}
