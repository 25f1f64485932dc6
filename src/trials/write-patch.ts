import { createHash } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { structuredPatch } from 'diff'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import type { ChunkStream } from '../platform/threads.ts'

/** Maximum number of files and bytes in a patch. */
const PATCH_CAPS = { files: 2000, fileBytes: 1024 ** 2, allBytes: 16 * 1024 ** 2 }
/** Corresponds to about one second of CPU time. */
const DIFF_EFFORT_MAX = 5e6
/** A sandbox stops reading after it has left out this many files. */
const LEFT_OUT_MAX = 1000

/** `timeoutMs`: maximum time for comparing both folders, and again for reading the files that differ. */
type WritePatchInput = { file: string; filesMax: number; timeoutMs: number }

/**
 * Writes a patch, in a worker thread. The four sources are tars of the folder before and after the agent's work, to find
 * the differences, and both once more, for the contents of the files that differ. The return value of a source lists the
 * files that were left out. The patch names the files that could not be read in time.
 */
export async function writePatch(
  { file, filesMax, timeoutMs }: WritePatchInput,
  sources: ChunkStream[],
): Promise<void> {
  const [before, after, beforeAgain, afterAgain] = sources
  if (!before || !after || !beforeAgain || !afterAgain) throw new Error('A patch needs four sources.')
  const limits = { filesMax, deadline: performance.now() + timeoutMs }
  const trees = { before: await readTree(before, limits), after: await readTree(after, limits) }
  const { shown, ...named } = sortChanges(listChanges(trees.before, trees.after), PATCH_CAPS)
  const deadline = performance.now() + timeoutMs
  const contents = {
    before: await readContents(beforeAgain, listPaths(shown, 'before'), deadline),
    after: await readContents(afterAgain, listPaths(shown, 'after'), deadline),
  }
  const isRead = ({ path, ...sides }: FileDifference): boolean =>
    SIDES.every((side) => !sides[side] || contents[side].has(path))
  const parts = { ...named, ...contents, shown: shown.filter(isRead), late: shown.filter((each) => !isRead(each)) }
  const text = buildPatchText(
    { ...parts, leftOut: listLeftOut(trees.before, trees.after) },
    { remaining: DIFF_EFFORT_MAX },
  )
  if (text === '') await rm(file, { force: true })
  else await writeFile(file, text, 'latin1')
}

const SIDES = ['before', 'after'] as const

/** Returns the paths that must be read to show changes. The content of a hard link is that of its first name. */
const listPaths = (changes: readonly FileDifference[], side: (typeof SIDES)[number]): Set<string> =>
  new Set(changes.flatMap((change) => (change[side] ? [change.path, change[side].firstName ?? change.path] : [])))

const MORE_MARK = '(more)'

/** Returns the names of files that were left out, and a mark if there may be others. */
const listLeftOut = (before: PatchTree, after: PatchTree): string[] => {
  const isComplete = before.isComplete && after.isComplete
  return isComplete || after.leftOut.includes(MORE_MARK) ? [...after.leftOut] : [...after.leftOut, MORE_MARK]
}

/** Removes the name of the folder itself. */
const toRelativePath = (path: string): string => path.replace(/\/$/, '').split('/').slice(1).join('/')

type ReadLimits = { filesMax: number; deadline: number }

const isOver = (deadline: number): boolean => performance.now() > deadline

async function readTree(source: ChunkStream, { filesMax, deadline }: ReadLimits): Promise<PatchTree> {
  const files = new Map<string, PatchFile>()
  const { chunks, returnValue } = captureReturnValue(source)
  let entries = 0
  for await (const entry of readTarEntries(chunks)) {
    entries += 1
    const file = entry.type === 'Link' ? findLinked(files, entry) : await readEntry(entry, deadline)
    if (isOver(deadline)) return { files, leftOut: [MORE_MARK], isComplete: false }
    if (file && toRelativePath(entry.path) !== '') files.set(toRelativePath(entry.path), file)
  }
  const names = returnValue()
  if (!Array.isArray(names)) return { files, leftOut: [], isComplete: true }
  const leftOut = names.map((path) => toRelativePath(String(path)))
  // An empty path stands for files whose names are unknown because reading stopped.
  const isComplete = entries < filesMax && leftOut.length < LEFT_OUT_MAX && !leftOut.includes('')
  return { files, leftOut: leftOut.map((path) => path || MORE_MARK), isComplete }
}

/** Makes the return value of a stream available once its chunks have been read. `for await` would drop it. */
function captureReturnValue(source: ChunkStream): { chunks: AsyncIterable<Buffer>; returnValue(): unknown } {
  let value: unknown
  const chunks = async function* () {
    value = yield* source
  }
  return { chunks: chunks(), returnValue: () => value }
}

/** Returns the file that a hard link is another name of. */
function findLinked(files: ReadonlyMap<string, PatchFile>, entry: TarEntry): PatchFile | undefined {
  const firstName = toFirstName(entry)
  const first = files.get(firstName)
  return first && { ...first, firstName }
}

/** Returns the first name of a file for a hard link, or an empty path. */
const toFirstName = ({ type, linkTarget }: TarEntry): string => (type === 'Link' ? toRelativePath(linkTarget) : '')

async function readEntry(entry: TarEntry, deadline: number): Promise<PatchFile | undefined> {
  const hash = createHash('sha256')
  for await (const chunk of entry.content()) {
    if (isOver(deadline)) return undefined
    hash.update(chunk)
  }
  if (entry.type === 'Directory') return undefined
  const isLink = entry.type === 'SymbolicLink'
  if (isLink) hash.update(entry.linkTarget)
  return {
    kind: isLink ? 'link' : 'file',
    isExecutable: !isLink && (entry.mode & 0o100) !== 0,
    bytes: entry.bytes,
    digest: hash.digest('hex'),
  }
}

/** Reads the wanted files, one character per byte, so that text that is not UTF-8 is preserved. */
async function readContents(source: ChunkStream, wanted: ReadonlySet<string>, deadline: number): Promise<FileContents> {
  const contents = new Map<string, string>()
  if (wanted.size === 0) return contents
  for await (const entry of readTarEntries(source)) {
    const path = toRelativePath(entry.path)
    const bytes = await readBytes(entry, wanted.has(path), deadline)
    if (bytes === undefined) break
    if (wanted.has(path)) contents.set(path, contents.get(toFirstName(entry)) ?? bytes.toString('latin1'))
    if (contents.size === wanted.size) break
  }
  return contents
}

/** Returns the content of an entry, or nothing of it if it is not wanted. Undefined after the deadline. */
async function readBytes({ content }: TarEntry, isWanted: boolean, deadline: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  for await (const chunk of content()) {
    if (isOver(deadline)) return undefined
    if (isWanted) chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** A file of a tree. The digest of a symbolic link is that of its target path. `firstName`: set for a hard link. */
type PatchFile = { kind: 'file' | 'link'; isExecutable: boolean; bytes: number; digest: string; firstName?: string }

/** Files of a folder. In a complete tree, a path that is neither listed nor below a left-out one does not exist. */
type PatchTree = { files: ReadonlyMap<string, PatchFile>; leftOut: readonly string[]; isComplete: boolean }

type FileDifference = { path: string; before: PatchFile | undefined; after: PatchFile | undefined }

/** File contents by path, one character per byte. */
type FileContents = ReadonlyMap<string, string>

/** Returns the differences, by path. Omits paths that may not have been read, and data files of git. */
function listChanges(before: PatchTree, after: PatchTree): FileDifference[] {
  const paths = [...new Set([...before.files.keys(), ...after.files.keys()])].sort()
  return paths.flatMap((path) => {
    const change = { path, before: before.files.get(path), after: after.files.get(path) }
    const isGitData = isInGitFolder(path) && !isGitControl(path)
    if (isGitData || isUnchanged(change)) return []
    const isKnown = (change.before || isAbsent(before, path)) && (change.after || isAbsent(after, path))
    return isKnown ? [change] : []
  })
}

const isInGitFolder = (path: string): boolean => path.split('/').some((part) => part.toLowerCase() === '.git')

/** Returns true for files that git executes, reads settings from or finds its folder through. `git apply` rejects them. */
const isGitControl = (path: string): boolean =>
  /(^|\/)\.git(\/(.+\/)?(config|config\.worktree|commondir|info\/(attributes|exclude|sparse-checkout)|hooks(\/.*)?))?$/i.test(
    path,
  )

const isUnchanged = ({ before, after }: FileDifference): boolean =>
  before !== undefined &&
  after !== undefined &&
  before.kind === after.kind &&
  before.digest === after.digest &&
  before.isExecutable === after.isExecutable

function isAbsent({ leftOut, isComplete }: PatchTree, path: string): boolean {
  return isComplete && !leftOut.some((out) => path === out || path.startsWith(`${out}/`))
}

type PatchCaps = { files: number; fileBytes: number; allBytes: number }

type SortedChanges = { shown: FileDifference[]; large: FileDifference[]; links: FileDifference[] }

/** Sorts changes into those that are shown, up to the caps, and those that are only named. */
function sortChanges(changes: readonly FileDifference[], caps: PatchCaps): SortedChanges {
  const sorted: SortedChanges = { shown: [], large: [], links: [] }
  let bytes = 0
  for (const change of changes) {
    const fileBytes = Math.max(change.before?.bytes ?? 0, change.after?.bytes ?? 0)
    const fits = fileBytes <= caps.fileBytes && bytes + fileBytes <= caps.allBytes && sorted.shown.length < caps.files
    if (change.before?.kind === 'link' || change.after?.kind === 'link') sorted.links.push(change)
    else if (!fits) sorted.large.push(change)
    else {
      sorted.shown.push(change)
      bytes += fileBytes
    }
  }
  return sorted
}

type PatchParts = SortedChanges & {
  before: FileContents
  after: FileContents
  /** Changes whose contents could not be read in time. */
  late: readonly FileDifference[]
  leftOut: readonly string[]
}

/** Builds a patch that `git apply` accepts. Changes that it does not show are named first, in lines that git ignores. */
function buildPatchText({ shown, large, links, late, before, after, leftOut }: PatchParts, effort: DiffEffort): string {
  const isBinary = ({ path }: FileDifference) => isBinaryContent(before.get(path)) || isBinaryContent(after.get(path))
  const readable = shown.filter((change) => !isBinary(change))
  const text = readable.filter(({ path }) => !isGitControl(path))
  const control = readable.filter(({ path }) => isGitControl(path))
  const toSection = (change: FileDifference) => buildSection(change, { before, after }, effort)
  return [
    ...toComments(GIT_CONTROL_TITLE, control.map(toSection)),
    ...toNameList('Binary files, not shown', shown.filter(isBinary).map(describeChange)),
    ...toNameList('Too large or too many, not shown', large.map(describeChange)),
    ...toNameList('Links, not shown', links.map(describeChange)),
    ...toNameList('Not read in time, not shown', late.map(describeChange)),
    ...toNameList('Not looked at', leftOut.map(quotePath)),
    ...text.map(toSection),
  ].join('')
}

const GIT_CONTROL_TITLE =
  'Git settings and hooks. git apply does not accept them; settings that run programs, and hooks, do not reach the tests in modes grader, workspace and snapshot'

/** Writes sections as comments, which git ignores. */
function toComments(title: string, sections: readonly string[]): string[] {
  if (sections.length === 0) return []
  const lines = sections.join('').replace(/\n$/, '').split('\n')
  return [`# ${title}:\n`, ...lines.map((line) => `#   ${line}\n`)]
}

/** Maximum number of files in a list. The rest are counted. */
const NAMED_MAX = 200

function toNameList(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return []
  const more = lines.length > NAMED_MAX ? [`and ${lines.length - NAMED_MAX} more`] : []
  return [`# ${title}:\n`, ...[...lines.slice(0, NAMED_MAX), ...more].map((line) => `#   ${line}\n`)]
}

function describeChange({ path, before, after }: FileDifference): string {
  return `${quotePath(path)} (${nameChange(before, after)}, ${after?.bytes ?? 0} bytes)`
}

function nameChange(before: PatchFile | undefined, after: PatchFile | undefined): string {
  if (!before) return 'new'
  return after ? 'changed' : 'removed'
}

/** Number of bytes that git examines to recognise a binary file. */
const BINARY_CHECK_BYTES = 8000
const isBinaryContent = (content: string | undefined): boolean =>
  content?.slice(0, BINARY_CHECK_BYTES).includes('\0') ?? false

function buildSection(
  { path, before, after }: FileDifference,
  contents: Pick<PatchParts, 'before' | 'after'>,
  effort: DiffEffort,
): string {
  const [a, b] = [quotePath(`a/${path}`), quotePath(`b/${path}`)]
  const hunks = buildUnifiedDiff(contents.before.get(path) ?? '', contents.after.get(path) ?? '', effort)
  const names = `--- ${before ? a : '/dev/null'}\n+++ ${after ? b : '/dev/null'}\n`
  return `diff --git ${a} ${b}\n${formatModes(before, after)}${hunks === '' ? '' : names + hunks}`
}

function formatModes(before: PatchFile | undefined, after: PatchFile | undefined): string {
  if (!before) return `new file mode ${formatMode(after)}\n`
  if (!after) return `deleted file mode ${formatMode(before)}\n`
  return before.isExecutable === after.isExecutable
    ? ''
    : `old mode ${formatMode(before)}\nnew mode ${formatMode(after)}\n`
}

const formatMode = (file: PatchFile | undefined): string => (file?.isExecutable ? '100755' : '100644')

const PLAIN_PATH = /^[!#-[\]-~]+$/
const ESCAPES: Record<number, string> = { 9: '\\t', 10: '\\n', 13: '\\r', 34: '\\"', 92: '\\\\' }

/** Quotes a path like git: special characters are written as octal bytes. */
function quotePath(path: string): string {
  if (PLAIN_PATH.test(path)) return path
  const bytes = [...Buffer.from(path, 'utf8')].map(
    (byte) =>
      ESCAPES[byte] ?? (byte < 32 || byte > 126 ? `\\${byte.toString(8).padStart(3, '0')}` : String.fromCharCode(byte)),
  )
  return `"${bytes.join('')}"`
}

/** Number of unchanged lines around each change. */
const CONTEXT_LINES = 3
/** Texts that differ in more lines than this are shown as removed and added completely. */
const EDITS_MAX = 1000

/**
 * Remaining work for all diffs of a trial, so that no agent can keep the process busy. A diff with n changed lines costs
 * n², the running time of the algorithm.
 */
type DiffEffort = { remaining: number }

/** Returns the hunks of a unified diff, or an empty text if nothing differs. */
export function buildUnifiedDiff(before: string, after: string, effort: DiffEffort): string {
  const maxEditLength = Math.min(EDITS_MAX, Math.floor(Math.sqrt(Math.max(0, effort.remaining))))
  const patch = structuredPatch('', '', before, after, '', '', { context: CONTEXT_LINES, maxEditLength })
  if (!patch) {
    effort.remaining -= maxEditLength ** 2
    return replaceWholeText(before, after)
  }
  const changed = patch.hunks.flatMap(({ lines }) => lines).filter((line) => !line.startsWith(' ')).length
  effort.remaining -= changed ** 2
  return patch.hunks
    .map(({ oldStart, oldLines, newStart, newLines, lines }) => {
      const oldRange = `${oldLines === 0 ? oldStart - 1 : oldStart},${oldLines}`
      const newRange = `${newLines === 0 ? newStart - 1 : newStart},${newLines}`
      return `@@ -${oldRange} +${newRange} @@\n${lines.join('\n')}\n`
    })
    .join('')
}

/** Returns one hunk that removes all lines of one text and adds all lines of the other. */
function replaceWholeText(before: string, after: string): string {
  const [removed, added] = [splitLines(before), splitLines(after)]
  const ranges = `-${removed.length === 0 ? 0 : 1},${removed.length} +${added.length === 0 ? 0 : 1},${added.length}`
  return `@@ ${ranges} @@\n${markLines('-', removed)}${markLines('+', added)}`
}

const splitLines = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+/g) ?? []

const markLines = (sign: '-' | '+', lines: readonly string[]): string =>
  lines.map((line) => sign + (line.endsWith('\n') ? line : `${line}\n\\ No newline at end of file\n`)).join('')
