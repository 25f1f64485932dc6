type DiffLineKind = 'file' | 'hunk' | 'added' | 'removed'

/** Returns the kind of a line of a unified diff. Undefined for lines that did not change. */
export function toDiffLineKind(line: string): DiffLineKind | undefined {
  if (/^(?:diff |index |--- |\+\+\+ |new file|deleted file|rename |similarity )/.test(line)) return 'file'
  if (line.startsWith('@@')) return 'hunk'
  if (line.startsWith('+')) return 'added'
  return line.startsWith('-') ? 'removed' : undefined
}
