import { z } from 'zod'
import type { PathKind } from '../../grading/path-kinds.ts'
import type { PullRequest } from '../../repos/pull-requests/pull-request.ts'
import type { Difficulty } from '../schema.ts'
import type { ChangedFile } from './changed-file.ts'
import type { Diff } from './read-diffs.ts'
import { type Reason, rejectCandidate, type ScreenRejection } from './reasons.ts'

/** Features of a candidate that are known without executing anything. */
export const Features = z.object({
  files: z.number(),
  sourceFiles: z.number(),
  sourceLines: z.number(),
  testFiles: z.number(),
  testLines: z.number(),
  hunks: z.number(),
  folders: z.number(),
  languages: z.array(z.string()),
})
export type Features = z.infer<typeof Features>

export type CandidateVerdict = { kind: 'candidate'; difficulty: Difficulty; features: Features; fingerprint: string }
export type DiffVerdict = CandidateVerdict | ScreenRejection

const FILES_MAX = 40
const SOURCE_FILES_MAX = 15
const SOURCE_LINES_MAX = 1000
const TEST_LINES_MIN = 3
export const FILE_BYTES_MAX = 1024 * 1024

/**
 * Screens by file names and modes, before any text is read. A moved file is still listed as deleted and added, so twice
 * the final number of files is allowed.
 */
export function screenNames(diff: Diff): ScreenRejection | undefined {
  const { files, fileCount } = diff
  return (
    (fileCount === 0 ? rejectCandidate('empty', 'the same tree before and after') : undefined) ??
    rejectFile('submodule', files, ({ isSubmodule }) => isSubmodule) ??
    rejectFile('symlink', listRelevantFiles(files), ({ isLink }) => isLink) ??
    (fileCount > FILES_MAX * 2 ? rejectCandidate('too_large', `${fileCount} files`) : undefined) ??
    rejectWithoutSource(files) ??
    rejectWithoutTestFiles(files)
  )
}

/** Screens a diff whose text was read. */
export function screenDiff(diff: Diff): DiffVerdict {
  return screenNames(diff) ?? screenContents(diff) ?? { kind: 'candidate', ...measureDiff(diff) }
}

function screenContents({ files, fileCount }: Diff): ScreenRejection | undefined {
  const source = filterKind(files, 'source')
  const tests = filterKind(files, 'test')
  return (
    rejectFile('binary', listRelevantFiles(files), ({ isBinary }) => isBinary) ??
    (tests.length === 0 ? rejectInlineTests(source) : rejectWithoutTests(tests)) ??
    (source.every(isCosmetic) ? rejectCandidate('cosmetic', source[0]?.path ?? '') : undefined) ??
    rejectBySize(fileCount, source)
  )
}

function rejectBySize(fileCount: number, source: readonly ChangedFile[]): ScreenRejection | undefined {
  const lines = countLines(source)
  // A fix may consist of a single line, a new file may not.
  if (lines <= 1 && source.every(({ isAdded }) => isAdded))
    return rejectCandidate('too_small', `${lines} lines of source`)
  if (fileCount > FILES_MAX) return rejectCandidate('too_large', `${fileCount} files`)
  if (source.length > SOURCE_FILES_MAX) return rejectCandidate('too_large', `${source.length} source files`)
  return lines > SOURCE_LINES_MAX ? rejectCandidate('too_large', `${lines} lines of source`) : undefined
}

/** Rejects a change without source files, with the most specific reason that covers all changed files. */
function rejectWithoutSource(files: readonly ChangedFile[]): ScreenRejection | undefined {
  if (filterKind(files, 'source').length > 0) return undefined
  const kinds = new Set(files.map(({ kind }) => kind))
  const matchesAll = ([, required, allowed]: KindRule) =>
    kinds.has(required) && [...kinds].every((kind) => kind === required || allowed.includes(kind))
  const reason = KIND_RULES.find(matchesAll)?.[0] ?? 'no_source'
  return rejectCandidate(reason, files[0]?.path ?? '')
}

/** A rejection reason, the path kind that must occur for it, and the other kinds that may occur. */
type KindRule = [reason: Reason, required: PathKind, allowed: PathKind[]]

const KIND_RULES: KindRule[] = [
  ['docs_only', 'docs', []],
  ['dependencies_only', 'dependencies', ['docs']],
  ['tests_only', 'test', ['docs', 'ci', 'dependencies']],
  ['generated_only', 'generated', ['dependencies', 'docs']],
]

function rejectWithoutTestFiles(files: readonly ChangedFile[]): ScreenRejection | undefined {
  if (filterKind(files, 'test').some(({ isDeleted }) => !isDeleted)) return undefined
  // Only the text shows whether a source file contains tests.
  const source = filterKind(files, 'source')
  const mayHaveInlineTests = source.some(({ language }) => language?.hasInlineTests)
  return mayHaveInlineTests ? undefined : rejectCandidate('no_tests', `${source.length} source files`)
}

function rejectInlineTests(source: readonly ChangedFile[]): ScreenRejection {
  const inline = source.find((file) => file.hasInlineTests)
  return inline
    ? rejectCandidate('inline_tests', inline.path)
    : rejectCandidate('no_tests', `${source.length} source files`)
}

function rejectWithoutTests(tests: readonly ChangedFile[]): ScreenRejection | undefined {
  const extended = tests.filter(({ hasTests, added }) => hasTests && added > 0)
  if (extended.length === 0) return rejectCandidate('no_tests', `only ${tests[0]?.path ?? ''}`)
  const assertsOnlyTypes =
    extended.every(({ assertions }) => assertions === 0) && extended.some(({ typeAssertions }) => typeAssertions > 0)
  if (assertsOnlyTypes) return rejectCandidate('no_tests', `only type assertions in ${extended[0]?.path ?? ''}`)
  const lines = countLines(extended)
  return lines < TEST_LINES_MIN ? rejectCandidate('no_tests', `${lines} lines of tests`) : undefined
}

const isCosmetic = ({ changesCode }: ChangedFile): boolean => !changesCode

/**
 * Lists the files that may matter to source or tests: these themselves, and other files in the same top-level folders.
 * Documentation, CI files and the like belong to the rest of the split, which no run applies.
 */
function listRelevantFiles(files: readonly ChangedFile[]): ChangedFile[] {
  const isSourceOrTest = ({ kind }: ChangedFile) => kind === 'source' || kind === 'test'
  const folders = new Set(files.filter(isSourceOrTest).map(({ path }) => toTopFolder(path)))
  return files.filter((file) => isSourceOrTest(file) || (file.kind === 'other' && folders.has(toTopFolder(file.path))))
}

const toTopFolder = (path: string): string => path.slice(0, path.indexOf('/') + 1)

function rejectFile(
  reason: Reason,
  files: readonly ChangedFile[],
  predicate: (file: ChangedFile) => boolean,
): ScreenRejection | undefined {
  const file = files.find(predicate)
  return file && rejectCandidate(reason, file.path)
}

const filterKind = (files: readonly ChangedFile[], kind: PathKind): ChangedFile[] =>
  files.filter((file) => file.kind === kind)
const countLines = (files: readonly ChangedFile[]): number =>
  files.reduce((sum, { added, deleted }) => sum + added + deleted, 0)

function measureDiff({ files, fileCount, fingerprint }: Diff): Omit<CandidateVerdict, 'kind'> {
  const source = filterKind(files, 'source')
  const tests = filterKind(files, 'test')
  const features: Features = {
    files: fileCount,
    sourceFiles: source.length,
    sourceLines: countLines(source),
    testFiles: tests.length,
    testLines: countLines(tests),
    hunks: source.reduce((sum, { hunks }) => sum + hunks, 0),
    folders: new Set(source.map(({ path }) => path.slice(0, path.lastIndexOf('/') + 1))).size,
    languages: [...new Set(source.flatMap(({ language }) => language?.name ?? []))].toSorted(),
  }
  return { difficulty: estimateBySize(features), features, fingerprint: fingerprint.copy().digest('hex') }
}

const EASY_LINES_MAX = 20
const HARD_FILES_MIN = 5
const MEDIUM_LINES_MAX = 200

/** Estimates the difficulty for selection. The real difficulty is only known from trials. */
function estimateBySize({ sourceFiles, sourceLines }: Pick<Features, 'sourceFiles' | 'sourceLines'>): Difficulty {
  if (sourceFiles === 1 && sourceLines <= EASY_LINES_MAX) return 'easy'
  return sourceFiles >= HARD_FILES_MIN || sourceLines > MEDIUM_LINES_MAX ? 'hard' : 'medium'
}

export type ScreenedPullRequest = { pullRequest: PullRequest; verdict: DiffVerdict }
