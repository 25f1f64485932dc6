import { z } from 'zod'
import type { PathKind } from '../../grading/path-kinds.ts'
import type { Difficulty } from '../schema.ts'
import type { ChangedFile } from './changed-file.ts'
import type { Diff } from './read-diffs.ts'
import { type Reason, type Rejection, rejected } from './reasons.ts'

/** What is known of a candidate before anything runs. */
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

export type Screened = { kind: 'candidate'; difficulty: Difficulty; features: Features; fingerprint: string }
export type DiffVerdict = Screened | Rejection

const FILES_MAX = 40
const SOURCE_FILES_MAX = 15
const SOURCE_LINES_MIN = 3
const SOURCE_LINES_MAX = 1000
const TEST_LINES_MIN = 3
export const FILE_BYTES_MAX = 1024 * 1024

/**
 * What names and modes tell, before any text is there. A file that moved is still listed twice, once gone and once
 * new, so that twice as many are let through as in the end.
 */
export function screenNames(diff: Diff): Rejection | undefined {
  const { files, fileCount } = diff
  return (
    (fileCount === 0 ? rejected('empty', 'the same tree before and after') : undefined) ??
    withFile('submodule', files, ({ isSubmodule }) => isSubmodule) ??
    withFile('symlink', files, ({ isLink }) => isLink) ??
    (fileCount > FILES_MAX * 2 ? rejected('too_large', `${fileCount} files`) : undefined) ??
    withoutSource(files) ??
    withoutTestFiles(files)
  )
}

/** The verdict on a difference whose text was read. */
export function screenDiff(diff: Diff): DiffVerdict {
  return screenNames(diff) ?? screenText(diff) ?? { kind: 'candidate', ...measured(diff) }
}

function screenText({ files, fileCount }: Diff): Rejection | undefined {
  const source = of(files, 'source')
  const tests = of(files, 'test')
  return (
    withFile('binary', files, ({ isBinary }) => isBinary) ??
    (tests.length === 0 ? inlineOrNone(source) : withoutTests(tests)) ??
    (source.every(isCosmetic) ? rejected('cosmetic', source[0]?.path ?? '') : undefined) ??
    sizeFault(fileCount, source)
  )
}

function sizeFault(fileCount: number, source: readonly ChangedFile[]): Rejection | undefined {
  const lines = linesOf(source)
  if (lines < SOURCE_LINES_MIN) return rejected('too_small', `${lines} lines of source`)
  if (fileCount > FILES_MAX) return rejected('too_large', `${fileCount} files`)
  if (source.length > SOURCE_FILES_MAX) return rejected('too_large', `${source.length} source files`)
  return lines > SOURCE_LINES_MAX ? rejected('too_large', `${lines} lines of source`) : undefined
}

/** What there is instead says most. */
function withoutSource(files: readonly ChangedFile[]): Rejection | undefined {
  if (of(files, 'source').length > 0) return undefined
  const kinds = new Set(files.map(({ kind }) => kind))
  const isAll = ([, main, beside]: Instead) =>
    kinds.has(main) && [...kinds].every((kind) => kind === main || beside.includes(kind))
  const reason = INSTEAD.find(isAll)?.[0] ?? 'no_source'
  return rejected(reason, files[0]?.path ?? '')
}

/** What there must be for a reason, and what may stand beside it. */
type Instead = [reason: Reason, main: PathKind, beside: PathKind[]]

const INSTEAD: Instead[] = [
  ['docs_only', 'docs', []],
  ['dependencies_only', 'dependencies', ['docs']],
  ['tests_only', 'test', ['docs', 'ci', 'dependencies']],
  ['generated_only', 'generated', ['dependencies', 'docs']],
]

function withoutTestFiles(files: readonly ChangedFile[]): Rejection | undefined {
  if (of(files, 'test').some(({ isDeleted }) => !isDeleted)) return undefined
  // Whether a test stands inside of the source, its text must tell.
  const mayBeInline = of(files, 'source').some(({ language }) => language?.hasInlineTests)
  return mayBeInline ? undefined : rejected('no_tests', `${of(files, 'source').length} source files`)
}

function inlineOrNone(source: readonly ChangedFile[]): Rejection {
  const inline = source.find((file) => file.hasInlineTests)
  return inline ? rejected('inline_tests', inline.path) : rejected('no_tests', `${source.length} source files`)
}

function withoutTests(tests: readonly ChangedFile[]): Rejection | undefined {
  const running = tests.filter(({ hasTests, added }) => hasTests && added > 0)
  if (running.length === 0) return rejected('no_tests', `only ${tests[0]?.path ?? ''}`)
  const lines = linesOf(running)
  return lines < TEST_LINES_MIN ? rejected('no_tests', `${lines} lines of tests`) : undefined
}

const isCosmetic = ({ addedCode, deletedCode }: ChangedFile): boolean =>
  addedCode.copy().digest('hex') === deletedCode.copy().digest('hex')

function withFile(
  reason: Reason,
  files: readonly ChangedFile[],
  is: (file: ChangedFile) => boolean,
): Rejection | undefined {
  const found = files.find(is)
  return found && rejected(reason, found.path)
}

const of = (files: readonly ChangedFile[], kind: PathKind): ChangedFile[] => files.filter((file) => file.kind === kind)
const linesOf = (files: readonly ChangedFile[]): number =>
  files.reduce((sum, { added, deleted }) => sum + added + deleted, 0)

function measured({ files, fileCount, fingerprint }: Diff): Omit<Screened, 'kind'> {
  const source = of(files, 'source')
  const tests = of(files, 'test')
  const features: Features = {
    files: fileCount,
    ...{ sourceFiles: source.length, sourceLines: linesOf(source) },
    ...{ testFiles: tests.length, testLines: linesOf(tests) },
    hunks: source.reduce((sum, { hunks }) => sum + hunks, 0),
    folders: new Set(source.map(({ path }) => path.slice(0, path.lastIndexOf('/') + 1))).size,
    languages: [...new Set(source.flatMap(({ language }) => language?.name ?? []))].toSorted(),
  }
  return { difficulty: difficultyOf(features), features, fingerprint: fingerprint.copy().digest('hex') }
}

/** A first guess, to pick by. What it is really worth, only solving it tells. */
function difficultyOf({ sourceFiles, sourceLines }: Pick<Features, 'sourceFiles' | 'sourceLines'>): Difficulty {
  if (sourceFiles === 1 && sourceLines <= 20) return 'easy'
  return sourceFiles >= 5 || sourceLines > 200 ? 'hard' : 'medium'
}
