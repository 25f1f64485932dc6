import { createHash, type Hash } from 'node:crypto'
import { type ChangedFile, endHunk, newChangedFile, noteContext, noteLine } from './changed-file.ts'

/** Diff of one pull request between two trees. */
export type Diff = {
  trees: string
  files: ChangedFile[]
  /** Number of all files. `files` may contain fewer. */
  fileCount: number
  /** Hash of all added and deleted lines, independent of line numbers. */
  fingerprint: Hash
}

const LISTED_FILES_MAX = 100
const TREES_LINE = /^[0-9a-f]{40,64} [0-9a-f]{40,64}$/
const RAW_LINE = /^:(\d+) (\d+) ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*\t(.*)$/
const HUNK_HEADER = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?(.*)$/

/** State of the parser for `git diff-tree --stdin --raw -p -U0`. */
type DiffReader = {
  diff: Diff
  /** File whose patch is being read. Undefined if the file is not listed. */
  file: ChangedFile | undefined
  nextFile: number
  /** Lines of the current hunk that have not been read. */
  linesLeft: number
}

/**
 * Parses diffs as git prints them, one after another. Each hunk has as many lines as its header says, so that no line of a
 * file can be mistaken for a header. git quotes names that contain a line end.
 */
export async function* readDiffs(lines: AsyncIterable<string>): AsyncGenerator<Diff, void, undefined> {
  let reader: DiffReader | undefined
  for await (const line of lines) {
    if (reader && !startsNextDiff(reader, line)) {
      readLine(reader, line)
      continue
    }
    if (reader) yield reader.diff
    reader = newReader(line)
  }
  if (reader) yield reader.diff
}

const startsNextDiff = ({ linesLeft }: DiffReader, line: string): boolean => linesLeft === 0 && TREES_LINE.test(line)

const newReader = (trees: string): DiffReader => ({
  diff: { trees, files: [], fileCount: 0, fingerprint: createHash('sha256') },
  file: undefined,
  nextFile: 0,
  linesLeft: 0,
})

function readLine(reader: DiffReader, line: string): void {
  if (line.startsWith('\\')) return // git's remark "No newline at end of file"
  if (reader.linesLeft === 0) {
    readHeader(reader, line)
    return
  }
  reader.linesLeft -= 1
  const sign = line.charAt(0)
  const text = line.slice(1)
  if (reader.file) noteLine(reader.file, sign, text)
  if (reader.file && reader.linesLeft === 0) endHunk(reader.file)
  reader.diff.fingerprint.update(`${sign}${text.replaceAll(/\s+/g, '')}\n`)
}

function readHeader(reader: DiffReader, line: string): void {
  if (line.startsWith(':')) addFile(reader.diff, line)
  if (line.startsWith('diff --git ')) startFile(reader)
  if (line.startsWith('Binary files ') && reader.file) reader.file.isBinary = true
  const hunk = HUNK_HEADER.exec(line)
  if (hunk) startHunk(reader, hunk)
}

/** Adds the file of a raw line. For a renamed file git prints both names; the new one is used. */
function addFile(diff: Diff, line: string): void {
  const [, oldMode = '', newMode = '', oldId = '', newId = '', names = ''] = RAW_LINE.exec(line) ?? []
  diff.fileCount += 1
  if (diff.files.length === LISTED_FILES_MAX) return
  const path = unquotePath(names.split('\t').at(-1) ?? names)
  diff.files.push(newChangedFile({ oldMode, newMode, oldId, newId, path }))
}

/** Starts the patch of the next file. git prints the patches in the order in which it listed the files. */
function startFile(reader: DiffReader): void {
  reader.file = reader.diff.files[reader.nextFile]
  reader.nextFile += 1
  if (reader.file) reader.diff.fingerprint.update(`${reader.file.path}\n`)
}

function startHunk(
  reader: DiffReader,
  [, deleted = '1', added = '1', context = '']: readonly (string | undefined)[],
): void {
  reader.linesLeft = Number(deleted) + Number(added)
  if (!reader.file) return
  reader.file.hunks += 1
  noteContext(reader.file, context)
}

const ESCAPES: Record<string, string> = { a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' }

/**
 * Decodes a path as git prints it: plain, or in quotes with escapes. Bytes that are not UTF-8 become replacement
 * characters.
 */
export function unquotePath(printed: string): string {
  if (!printed.startsWith('"')) return printed
  const bytes = printed
    .slice(1, -1)
    .replaceAll(/\\([0-7]{3}|.)/g, (_, code: string) =>
      code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
    )
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** Lines that a patch adds to one file, in contiguous blocks. */
export type PatchedFile = { path: string; isNew: boolean; blocks: string[] }

/**
 * Matches the beginning of each file of a patch. Not written with `^`, which also matches after a carriage return: a line
 * of the change may contain one.
 */
export const PATCH_SECTION: RegExp = /(?<![^\n])(?=diff --git )/
const NAME = /^\+\+\+ (?:"b\/|b\/)(.*?)\t?$/m
const FILES_MAX = 1000

/** Parses a git patch that was decoded as latin1. Deleted and binary files are left out. */
export function parsePatch(patch: string): PatchedFile[] {
  return patch
    .split(PATCH_SECTION)
    .slice(0, FILES_MAX)
    .flatMap((section) => parseSection(section) ?? [])
}

function parseSection(section: string): PatchedFile | undefined {
  const start = section.search(/(?<![^\n])@@ /)
  if (start < 0) return undefined
  const head = section.slice(0, start)
  const name = NAME.exec(head)
  if (!name) return undefined
  const printed = name[0].startsWith('+++ "') ? `"${name[1]}` : (name[1] ?? '')
  return { path: unquotePath(printed), isNew: /^new file mode /m.test(head), blocks: parseBlocks(section.slice(start)) }
}

function parseBlocks(hunks: string): string[] {
  const blocks: string[] = []
  let block: string[] = []
  for (const line of [...hunks.split('\n'), '']) {
    if (line.startsWith('+')) {
      block.push(line.slice(1))
    } else if (block.length > 0 && !line.startsWith('-')) {
      blocks.push(decodeText(block.join('\n')))
      block = []
    }
  }
  return blocks
}

/** Decodes the UTF-8 in a text that was read as latin1, one character per byte. */
export const decodeText = (latin1: string): string =>
  Buffer.from(latin1, 'latin1').toString('utf8').replaceAll('\r', '')
