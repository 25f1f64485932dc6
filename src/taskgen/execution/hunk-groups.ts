/** A part of a patch that stands by itself: a hunk, or a whole file that is added, deleted, binary or only renamed. */
type PatchPiece = { header: string; hunk: Hunk | null }
type Hunk = { oldStart: number; oldLines: number; newLines: number; body: string }

const GROUPS_MAX = 8

/**
 * The patch without one group of its hunks, for each group. At most eight: neighbours go together, so that a group is a
 * piece of work rather than a line. One group: nothing is left without it.
 */
export function omitEachGroup(patch: string): string[] {
  const pieces = splitPieces(patch)
  const groups = Math.min(GROUPS_MAX, pieces.length)
  return Array.from({ length: groups }, (_, group) =>
    renderPatch(pieces.filter((__, at) => Math.floor((at * groups) / pieces.length) !== group)),
  )
}

function splitPieces(patch: string): PatchPiece[] {
  return patch
    .split(/^(?=diff --git )/m)
    .filter((section) => section.startsWith('diff --git '))
    .flatMap(splitFile)
}

const HUNK = /^(?=@@ -\d)/m
const RANGES = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/

function splitFile(section: string): PatchPiece[] {
  const [header = '', ...bodies] = isWhole(section) ? [section] : section.split(HUNK)
  if (bodies.length === 0) return [{ header: section, hunk: null }]
  return bodies.map((body) => {
    const [, oldStart, oldLines = '1', newLines = '1'] = RANGES.exec(body) ?? []
    const hunk = { oldStart: Number(oldStart), oldLines: Number(oldLines), newLines: Number(newLines), body }
    return { header, hunk }
  })
}

/** Binary text may look like a hunk; a file that comes or goes cannot come by halves. */
const isWhole = (section: string): boolean =>
  /^(?:new file mode|deleted file mode|GIT binary patch)/m.test(section.split(HUNK)[0] ?? '')

/** Recomputes hunk positions, so that an omitted hunk does not shift the others. */
function renderPatch(pieces: readonly PatchPiece[]): string {
  let text = ''
  let last: string | undefined
  let shift = 0
  for (const { header, hunk } of pieces) {
    if (header !== last) {
      text += header
      shift = 0
    }
    last = header
    if (!hunk) continue
    text += renumberHunk(hunk, shift)
    shift += hunk.newLines - hunk.oldLines
  }
  return text
}

/** A side without lines is counted from the line before it. */
function renumberHunk({ oldStart, oldLines, newLines, body }: Hunk, shift: number): string {
  const start = oldStart + shift + (oldLines === 0 ? 1 : 0) - (newLines === 0 ? 1 : 0)
  return body.replace(RANGES, `@@ -${oldStart},${oldLines} +${start},${newLines} @@`)
}
