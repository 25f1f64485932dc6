type DiffLineKind = 'file' | 'hunk' | 'added' | 'removed'

/** Returns the kind of a line of a unified diff. Undefined for lines that did not change. */
export function toDiffLineKind(line: string): DiffLineKind | undefined {
  if (/^(?:diff |index |--- |\+\+\+ |new file|deleted file|rename |similarity )/.test(line)) return 'file'
  if (line.startsWith('@@')) return 'hunk'
  if (line.startsWith('+')) return 'added'
  return line.startsWith('-') ? 'removed' : undefined
}

/** A file of a diff, with the index of its line `+++` and the numbers of its changed lines. */
export type DiffFile = { name: string; headerIndex: number; added: number; removed: number }

export function listDiffFiles(lines: readonly string[]): DiffFile[] {
  const files: DiffFile[] = []
  for (const [index, line] of lines.entries()) {
    if (line.startsWith('+++ '))
      files.push({ name: findFileName(line, lines[index - 1]), headerIndex: index, added: 0, removed: 0 })
    const file = files.at(-1)
    const kind = toDiffLineKind(line)
    if (file && (kind === 'added' || kind === 'removed')) file[kind] += 1
  }
  return files
}

/** Returns the name in the header of a file. That of a deleted file is on the line `---`, which comes first. */
const findFileName = (newName: string, oldName = ''): string =>
  newName === '+++ /dev/null' ? oldName.replace(/^--- (?:a\/)?/, '') : newName.replace(/^\+\+\+ (?:b\/)?/, '')
