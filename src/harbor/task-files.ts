import { createHash } from 'node:crypto'
import { FILE_BYTES_MAX, FILES_MAX, IGNORE_BYTES_MAX, TASK_BYTES_MAX } from './limits.ts'
import { compareCodePoints, createPathTree, findPathFault } from './paths.ts'
import type { Report } from './report.ts'
import { type FileSource, readText, type SourceFault, type SourceFile } from './source.ts'
import type { TaskFile } from './task.ts'

/** Paths that Harbor packs. Other files in the root folder are neither packed nor covered by the digest. */
const PACKED_PATHS = [
  'task.toml',
  'instruction.md',
  'README.md',
  'trajectory.json',
  'environment',
  'tests',
  'solution',
  'steps',
]
const IGNORE_FILE = '.gitignore'
const HARBOR_IGNORE_FILE = '.harborignore'

/**
 * `includeIgnored`: also list files that Harbor would not pack. Used for packages, whose files were selected when they
 * were packed; in a working folder such files are left out.
 */
export type TaskFileOptions = { includeIgnored?: boolean }

/** Lists the files of a task, sorted. */
export async function listTaskFiles(
  source: FileSource,
  report: Report,
  { includeIgnored = false }: TaskFileOptions = {},
): Promise<SourceFile[]> {
  const listing = await source.list(PACKED_PATHS)
  const selected = includeIgnored ? listing.files : await dropIgnored(source, listing.files, report)
  const files = selected.toSorted((a, b) => compareCodePoints(a.path, b.path))
  for (const fault of listing.faults) report.refuse(fault.path, fault.code, FAULTS[fault.code])
  if (!listing.isComplete || files.length > FILES_MAX) {
    report.refuse('.', 'too_many_files', `The limit is ${FILES_MAX} files.`)
  }
  checkSizes(files, report)
  checkPaths(files, report)
  return files
}

const FAULTS: Record<SourceFault['code'], string> = {
  link_outside: 'The link leads out of the task or to a missing file.',
  link_to_folder: 'The link leads to a folder, which Harbor does not pack.',
  special_file: 'A task can only contain regular files and folders.',
  path_too_deep: 'The folder is nested too deeply.',
}

/** Maximum number of pattern steps times characters of all paths. At this number, matching takes about a second. */
const IGNORE_WORK_MAX = 500_000_000

async function dropIgnored(source: FileSource, files: SourceFile[], report: Report): Promise<SourceFile[]> {
  if (files.some(({ path }) => path.endsWith(`/${HARBOR_IGNORE_FILE}`))) {
    report.refuse(
      HARBOR_IGNORE_FILE,
      'unsupported',
      `${HARBOR_IGNORE_FILE} is not supported yet. Delete the files that it lists.`,
    )
  }
  const rules = await loadIgnoreRules(source, report)
  const characters = files.reduce((sum, { path }) => sum + path.length, 0)
  if (rules.steps * characters > IGNORE_WORK_MAX) {
    report.refuse(IGNORE_FILE, 'too_complex', 'Too many patterns for this number of files.')
    return files
  }
  return files.filter(({ path }) => !rules.ignores(path))
}

async function loadIgnoreRules(source: FileSource, report: Report): Promise<IgnoreRules> {
  const { files } = await source.list([IGNORE_FILE])
  const text = files.length > 0 ? await readText(source, IGNORE_FILE, IGNORE_BYTES_MAX, report) : undefined
  try {
    return text === undefined ? defaultIgnoreRules() : parseIgnoreFile(text)
  } catch (error) {
    if (!(error instanceof InvalidPattern)) throw error
    report.refuse(IGNORE_FILE, 'bad_pattern', error.message)
    return defaultIgnoreRules()
  }
}

function checkSizes(files: SourceFile[], report: Report): void {
  for (const { path } of files.filter(({ bytes }) => bytes > FILE_BYTES_MAX)) {
    report.refuse(path, 'too_large', `The limit is ${FILE_BYTES_MAX} bytes per file.`)
  }
  if (files.reduce((sum, { bytes }) => sum + bytes, 0) > TASK_BYTES_MAX) {
    report.refuse('.', 'too_large', `The limit is ${TASK_BYTES_MAX} bytes per task.`)
  }
}

/** Refuses paths that could not be unpacked again. */
function checkPaths(files: SourceFile[], report: Report): void {
  const tree = createPathTree()
  for (const { path } of files) {
    const fault = findPathFault(path) ?? tree.add(path, 'file').fault
    if (fault) report.refuse(path, fault, 'The path is not portable between file systems.')
  }
}

export async function hashFiles(source: FileSource, files: readonly SourceFile[]): Promise<TaskFile[]> {
  const hashed: TaskFile[] = []
  for (const file of files) hashed.push({ ...file, sha256: await hashFile(source, file) })
  return hashed
}

async function hashFile(source: FileSource, { path, bytes }: SourceFile): Promise<string> {
  const hash = createHash('sha256')
  let read = 0
  for await (const chunk of await source.open(path)) {
    hash.update(chunk)
    read += chunk.length
    if (read > bytes) break
  }
  if (read !== bytes) throw new Error(`${path} changed while it was being read. Try again.`)
  return hash.digest('hex')
}

/** A parsed ignore file. The last matching rule decides. */
type IgnoreRules = {
  ignores(path: string): boolean
  /** Maximum number of steps to match one character of a path. */
  steps: number
}

/** Patterns that Harbor ignores in a task without .gitignore. */
const DEFAULT_PATTERNS = ['__pycache__/', '*.pyc', '.DS_Store', '*.swp', '*.swo', '*~']

export const defaultIgnoreRules = (): IgnoreRules => buildIgnoreRules(DEFAULT_PATTERNS)

/** Line ends that Python recognises. Lines with other control characters are refused. */
const LINE_ENDS = /\r\n|[\n\r\u2028\u2029]/
/** A control character other than a tab. */
const CONTROL = /[^\P{Cc}\t]/u
/** White space except the byte order mark, which Python does not strip. */
const SPACE = /[^\S\uFEFF]/

/**
 * Parses a .gitignore as Harbor does, with pathspec's "gitignore" patterns. Unlike Git, these can re-include a file of an
 * ignored folder. Throws InvalidPattern. Patterns are untrusted, so they are not compiled to regular expressions, which
 * can backtrack exponentially: matching takes time linear in pattern length times path length.
 */
export const parseIgnoreFile = (text: string): IgnoreRules => buildIgnoreRules(text.split(LINE_ENDS))

export class InvalidPattern extends Error {
  override name = 'InvalidPattern'

  constructor(line: string) {
    super(`Invalid pattern in .gitignore: ${line.slice(0, 100)}`)
  }
}

type IgnoreRule = { ignores: boolean; pattern: IgnorePattern }

function buildIgnoreRules(lines: readonly string[]): IgnoreRules {
  const rules = lines.flatMap(parseRule)
  return {
    ignores: (path) => rules.findLast(({ pattern }) => matches(pattern, [...path]))?.ignores ?? false,
    steps: rules.reduce((sum, { pattern }) => sum + pattern.steps.length + 1, 0),
  }
}

function parseRule(line: string): IgnoreRule[] {
  if (CONTROL.test(line)) throw new InvalidPattern(line)
  const text = line.endsWith('\\ ') ? line : trimTrailingSpace(line)
  if (text === '' || text.startsWith('#')) return []
  const isNegated = text.startsWith('!')
  return [{ ignores: !isNegated, pattern: parsePattern(isNegated ? text.slice(1) : text, line) }]
}

function trimTrailingSpace(line: string): string {
  let end = line.length
  while (end > 0 && SPACE.test(line.charAt(end - 1))) end--
  return line.slice(0, end)
}

/** Matches one character of a path, any number of characters, or optionally skips the next steps. */
type PatternStep = { kind: 'one' | 'many'; accepts: (character: string) => boolean } | { kind: 'skip'; steps: number }

/** `end` says what may follow a match. `within`: anything. `whole`: nothing. `name`: nothing, or a slash. */
type IgnorePattern = { steps: PatternStep[]; end: 'within' | 'whole' | 'name' }

const anyCharacter = () => true
const isSlash = (character: string) => character === '/'
const isNotSlash = (character: string) => character !== '/'
const SLASH: PatternStep = { kind: 'one', accepts: isSlash }
/** `**` before a name: any folders, or none. */
const FOLDERS_BEFORE: PatternStep[] = [
  { kind: 'skip', steps: 3 },
  { kind: 'one', accepts: anyCharacter },
  { kind: 'many', accepts: anyCharacter },
  SLASH,
]
/** `**` between two names: any folders, or none. */
const FOLDERS_BETWEEN: PatternStep[] = [
  { kind: 'skip', steps: 3 },
  SLASH,
  { kind: 'one', accepts: anyCharacter },
  { kind: 'many', accepts: anyCharacter },
]
const EVERYTHING: IgnorePattern = { steps: [], end: 'within' }
const EVERYTHING_IN_FOLDERS: IgnorePattern = { steps: [{ kind: 'many', accepts: anyCharacter }, SLASH], end: 'within' }

function parsePattern(text: string, line: string): IgnorePattern {
  const isFolder = text.endsWith('/') && text !== '/'
  const segments = normaliseSegments(text.split('/'))
  if (segments.length === 0) throw new InvalidPattern(line)
  const shape = segments.join('/')
  if (shape === '**') return isFolder ? EVERYTHING_IN_FOLDERS : EVERYTHING
  if (shape === '**/*') return EVERYTHING
  if (shape === '**/*/**') return EVERYTHING_IN_FOLDERS
  return { steps: buildSteps(segments, line), end: toPatternEnd(segments) }
}

/** Adds the `**` that is implied by a pattern without a slash or with a trailing slash. */
function normaliseSegments(segments: string[]): string[] {
  const isName = segments.length === 1 || (segments.length === 2 && segments[1] === '')
  const [first = '', ...rest] = segments
  const matchesAnywhere = first !== '' && first !== '**' && isName
  const withoutLeadingSlash = first === '' ? rest : segments
  const anchored = matchesAnywhere ? ['**', ...segments] : withoutLeadingSlash
  const closed = anchored.at(-1) === '' ? [...anchored.slice(0, -1), '**'] : anchored
  return closed.filter((segment, index) => segment !== '**' || closed[index - 1] !== '**')
}

function toPatternEnd(segments: string[]): IgnorePattern['end'] {
  if (segments.at(-1) === '**') return 'within'
  return segments.at(-1) === '*' ? 'whole' : 'name'
}

const buildSteps = (segments: string[], line: string): PatternStep[] =>
  segments.flatMap((segment, index) => {
    if (segment === '**') return buildFolderSteps(index, segments.length)
    const needsSlash = index > 1 || (index === 1 && segments[0] !== '**')
    return [...(needsSlash ? [SLASH] : []), ...buildSegmentSteps(segment, line)]
  })

function buildFolderSteps(index: number, count: number): PatternStep[] {
  if (index === 0) return FOLDERS_BEFORE
  return index === count - 1 ? [SLASH] : FOLDERS_BETWEEN
}

function buildSegmentSteps(segment: string, line: string): PatternStep[] {
  if (segment === '*')
    return [
      { kind: 'one', accepts: isNotSlash },
      { kind: 'many', accepts: isNotSlash },
    ]
  const characters = [...segment]
  const steps: PatternStep[] = []
  for (let index = 0; index < characters.length; index++) {
    const { step, length } = parseStep(characters, index, line)
    steps.push(step)
    index += length - 1
  }
  return steps
}

function parseStep(characters: string[], index: number, line: string): { step: PatternStep; length: number } {
  const character = characters[index] ?? ''
  if (character === '*') return { step: { kind: 'many', accepts: isNotSlash }, length: 1 }
  if (character === '?') return { step: { kind: 'one', accepts: isNotSlash }, length: 1 }
  if (character === '[') return parseBracket(characters, index, line)
  if (character !== '\\') return { step: toLiteralStep(character), length: 1 }
  const escaped = characters[index + 1]
  if (escaped === undefined) throw new InvalidPattern(line)
  return { step: toLiteralStep(escaped), length: 2 }
}

const toLiteralStep = (character: string): PatternStep => ({ kind: 'one', accepts: (other) => other === character })

/** Parses `[a-z]`. As in pathspec, an unclosed bracket is literal, and a negated class matches a slash too. */
function parseBracket(characters: string[], index: number, line: string): { step: PatternStep; length: number } {
  const isNegated = characters[index + 1] === '!' || characters[index + 1] === '^'
  const start = index + (isNegated ? 2 : 1)
  const end = characters.indexOf(']', start + 1) // a leading ] is literal
  if (end < 0) return { step: toLiteralStep('['), length: 1 }
  const ranges = parseRanges(characters.slice(start, end), line)
  const isListed = (character: string) =>
    ranges.some(([first, last]) => first <= codePointOf(character) && codePointOf(character) <= last)
  return {
    step: { kind: 'one', accepts: (character) => isListed(character) !== isNegated },
    length: end - index + 1,
  }
}

const codePointOf = (character: string): number => character.codePointAt(0) ?? 0

function parseRanges(characters: string[], line: string): [number, number][] {
  const ranges: [number, number][] = []
  for (let index = 0; index < characters.length; index++) {
    const first = codePointOf(characters[index] ?? '')
    const isRange = characters[index + 1] === '-' && index + 2 < characters.length
    const last = isRange ? codePointOf(characters[index + 2] ?? '') : first
    if (last < first) throw new InvalidPattern(line)
    ranges.push([first, last])
    if (isRange) index += 2
  }
  return ranges
}

/** Simulates the pattern as a state machine, in one pass over the path. `reached` marks the active steps. */
function matches({ steps, end: allowedRest }: IgnorePattern, path: string[]): boolean {
  const end = steps.length
  let reached = addSkips(steps, new Uint8Array(end + 1).fill(1, 0, 1))
  for (const character of path) {
    const mayContinue = allowedRest === 'within' || (allowedRest === 'name' && character === '/')
    if (reached[end] && mayContinue) return true
    reached = addSkips(steps, advance(steps, reached, character))
  }
  return reached[end] === 1
}

function advance(steps: PatternStep[], reached: Uint8Array, character: string): Uint8Array {
  const next = new Uint8Array(reached.length)
  for (const [index, step] of steps.entries()) {
    if (!reached[index] || step.kind === 'skip' || !step.accepts(character)) continue
    next[step.kind === 'many' ? index : index + 1] = 1
  }
  return next
}

/** Adds the steps that are reachable without consuming a character. Skips only lead forward, so one pass is enough. */
function addSkips(steps: PatternStep[], reached: Uint8Array): Uint8Array {
  for (const [index, step] of steps.entries()) {
    if (!reached[index] || step.kind === 'one') continue
    reached[index + 1] = 1
    if (step.kind === 'skip') reached[index + 1 + step.steps] = 1
  }
  return reached
}
