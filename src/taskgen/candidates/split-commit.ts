import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { classifyPath } from '../../grading/path-kinds.ts'
import type { HiddenTests, PlainFile } from '../../grading/suite.ts'
import {
  createEmptyRepository,
  GitFailed,
  NUL,
  readBlobs,
  runGit,
  splitStream,
  streamGit,
} from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { done, reject, type StageResult } from '../stage-result.ts'
import { PATCH_SECTION, unquotePath } from './read-diffs.ts'
import { fetchMissingBlobs, findTreePairs, type GitObjects } from './tree-pairs.ts'

/** Change of a pull request as three patches, with its tests as merged. */
export type SplitCommit = SplitPatch & { hidden: HiddenTests; baseTree: string; headTree: string }

type CommitRange = { base: string; head: string }

const PATCH_BYTES_MAX = 8 * 1024 * 1024
const HIDDEN_BYTES_MAX = 16 * 1024 * 1024
/** Allows for the maximum of a thousand source lines, with half a kilobyte each. */
const SOURCE_BYTES_MAX = 512 * 1024

/** Splits a change and verifies that nothing is lost: the base tree with the three patches applied is the head tree. */
export async function splitCommit(
  objects: GitObjects,
  range: CommitRange,
  signal: AbortSignal,
): Promise<StageResult<SplitCommit>> {
  const { location } = objects
  const [pair] = await findTreePairs(location, [range], signal)
  if (pair === undefined) return reject('no_base', 'A tree of this pull request is not in the mirror.')
  const [baseTree = '', headTree = ''] = pair.split(' ')
  const changes = await listChanges(location, [baseTree, headTree], signal)
  if ('kind' in changes) return changes
  const sizes = await fetchMissingBlobs(objects, changes.flatMap(listBlobs), signal)
  const patch = await readPatch(location, [baseTree, headTree], signal)
  if (patch === undefined) return reject('too_large', `The difference is larger than ${PATCH_BYTES_MAX} bytes.`)
  const split = splitPatch(patch)
  if (split.source.length > SOURCE_BYTES_MAX)
    return reject('too_large', `The change of source is larger than ${SOURCE_BYTES_MAX} bytes.`)
  const hidden = await readHidden(location, changes, sizes, signal)
  if ('kind' in hidden) return hidden
  const rejection = await checkLossless(location, { split, baseTree, headTree }, signal)
  return rejection ?? done({ ...split, hidden, baseTree, headTree })
}

type TreeChange = { path: string; oldId: string; id: string; mode: string; isDeleted: boolean }

const DIFF_TREE_ARGS = [
  'diff-tree',
  '-r',
  '-z',
  '--raw',
  '--full-index',
  '--no-abbrev',
  '--no-renames',
  '--no-ext-diff',
]
const RAW_LINE = /^:\d+ (\d+) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])$/
const NAME_BYTES_MAX = 16 * 1024

/** Lists the changed files. Rejects a change with a file name that is not UTF-8. */
async function listChanges(location: GitLocation, trees: string[], signal: AbortSignal) {
  const changes: TreeChange[] = []
  // git prints the fields of a change and then its path, each ended by NUL.
  let fields: RegExpExecArray | null = null
  for await (const piece of splitStream(
    streamGit(location, [...DIFF_TREE_ARGS, ...trees], { signal }),
    NUL,
    NAME_BYTES_MAX,
  )) {
    if (fields === null) {
      fields = RAW_LINE.exec(piece)
      continue
    }
    const [, mode = '', oldId = '', id = '', status] = fields
    fields = null
    const path = Buffer.from(piece, 'latin1').toString()
    if (Buffer.from(path).toString('latin1') !== piece)
      return reject('split_not_lossless', `A file name is not UTF-8: ${JSON.stringify(path)}`)
    changes.push({ path, oldId, id, mode, isDeleted: status === 'D' })
  }
  return changes
}

const NULL_ID = /^0+$/
const SUBMODULE = '160000'

const listBlobs = ({ mode, oldId, id }: TreeChange): string[] =>
  mode === SUBMODULE ? [] : [oldId, id].filter((each) => !NULL_ID.test(each))

/** Every option is fixed, so that the same change gives the same patches on every machine. */
const PATCH_ARGS = [
  'diff-tree',
  '-r',
  '-p',
  '--binary',
  '--full-index',
  '--no-renames',
  '--no-color',
  '--no-ext-diff',
  '--no-textconv',
  '--diff-algorithm=histogram',
  '--no-indent-heuristic',
  '--src-prefix=a/',
  '--dst-prefix=b/',
]

const CONTEXT_LINES = 3
/** More lines than a file of a candidate has. */
const WHOLE_FILE_LINES = 1_000_000

/**
 * Returns the source patch with whole files as context, which show where comments and declarations begin. A change that
 * is too large for that keeps its ordinary context.
 */
export async function widenSource(
  location: GitLocation,
  { source, baseTree, headTree }: SplitCommit,
  signal: AbortSignal,
): Promise<string> {
  const patch = await readPatch(location, [baseTree, headTree], signal, WHOLE_FILE_LINES)
  return patch === undefined ? source : splitPatch(patch).source
}

async function readPatch(
  location: GitLocation,
  trees: string[],
  signal: AbortSignal,
  contextLines = CONTEXT_LINES,
): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of streamGit(location, [...PATCH_ARGS, `-U${contextLines}`, ...trees], { signal })) {
    bytes += chunk.length
    if (bytes > PATCH_BYTES_MAX) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('latin1')
}

const REGULAR_MODE = /^100(644|755|664)$/

/** Reads the tests as merged. Rejects tests that are too large or not regular files. */
async function readHidden(
  location: GitLocation,
  changes: readonly TreeChange[],
  sizes: ReadonlyMap<string, number>,
  signal: AbortSignal,
) {
  const tests = changes.filter(({ path }) => classifyPath(path) === 'test')
  const remaining = tests.filter(({ isDeleted }) => !isDeleted)
  const irregular = remaining.find(({ mode }) => !REGULAR_MODE.test(mode))
  if (irregular) return reject('split_not_lossless', `A test is not a regular file: ${JSON.stringify(irregular.path)}`)
  const total = remaining.reduce((sum, { id }) => sum + (sizes.get(id) ?? 0), 0)
  if (total > HIDDEN_BYTES_MAX)
    return reject('too_large', `The tests of the change are larger than ${HIDDEN_BYTES_MAX} bytes.`)
  const files: PlainFile[] = []
  for await (const { path, mode, content } of readBlobs(location, remaining, { signal, bytesMax: HIDDEN_BYTES_MAX })) {
    files.push({ path, content: content.toString('latin1'), executable: mode === '100755' })
  }
  return { files, deleted: tests.filter(({ isDeleted }) => isDeleted).map(({ path }) => path) } satisfies HiddenTests
}

type SplitCheck = { split: SplitPatch; baseTree: string; headTree: string }

async function checkLossless(location: GitLocation, { split, baseTree, headTree }: SplitCheck, signal: AbortSignal) {
  await using index = await openIndex(location, baseTree, signal)
  await index.readTree(baseTree)
  for (const part of ['source', 'test', 'rest'] as const) {
    const error = await index.apply(split[part])
    if (error !== undefined) return reject('patch_does_not_apply', `The ${part} patch: ${error}`)
  }
  const tree = await index.writeTree().catch(toWriteError)
  return tree === headTree
    ? undefined
    : reject('split_not_lossless', `The three patches give the tree ${tree} instead of ${headTree}.`)
}

/** Returns git's error message for a tree that it cannot write. Rethrows other errors. */
function toWriteError(error: unknown): string {
  if (error instanceof GitFailed && !error.timedOut) return error.message
  throw error
}

/** A patch in three parts: the source (solution), the tests (verifier) and the rest. */
type SplitPatch = { source: string; test: string; rest: string }

const HEADER = 'diff --git '

/**
 * Splits the output of `git diff-tree -p --binary --full-index --no-renames`, in latin1 so that no byte is lost. Each file
 * goes as a whole into one of the three patches. Without renames no patch depends on another, so that they can be applied
 * in any order.
 */
export function splitPatch(patch: string): SplitPatch {
  const split: SplitPatch = { source: '', test: '', rest: '' }
  // Lines of a hunk begin with a sign and git quotes line ends in names, so only git itself writes this line.
  for (const section of patch.split(PATCH_SECTION)) {
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

/** A temporary git index. The repository whose objects it uses is only read. */
type SplitIndex = AsyncDisposable & {
  /** Resets the index to this tree. */
  readTree(tree: string): Promise<void>
  /** Applies a patch exactly and completely. Returns undefined, or git's error message. */
  apply(patch: string): Promise<string | undefined>
  writeTree(): Promise<string>
}

/** Opens an index whose new objects are stored in a temporary folder. */
async function openIndex(location: GitLocation, tree: string, signal: AbortSignal): Promise<SplitIndex> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-split-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    await createEmptyRepository(join(folder, 'git'), tree)
    await writeFile(
      join(folder, 'git', 'objects', 'info', 'alternates'),
      `${await resolveObjectsFolder(location, signal)}\n`,
    )
  } catch (error) {
    await remove()
    throw error
  }
  const temporary: GitLocation = { repositoryArgs: [`--git-dir=${folder}/git`], cwd: folder, protocols: '' }
  const run = async (...args: string[]) => (await runGit(temporary, args, { signal })).toString().trim()
  return {
    async readTree(id) {
      await run('read-tree', id)
    },
    async apply(patch) {
      if (patch === '') return undefined
      const file = join(folder, 'patch')
      await writeFile(file, patch, 'latin1')
      return run('apply', '--cached', '--binary', '--whitespace=nowarn', file).then(() => undefined, toApplyError)
    },
    // Only the id is compared, and a partial clone lacks the content of unchanged files.
    writeTree: () => run('write-tree', '--missing-ok'),
    [Symbol.asyncDispose]: remove,
  }
}

/** Returns git's error message for a patch that does not apply. Rethrows other errors, for example if git was stopped. */
function toApplyError(error: unknown): string {
  if (!(error instanceof GitFailed) || error.timedOut || !/^error: /m.test(error.stderr)) throw error
  return error.message
}

async function resolveObjectsFolder(location: GitLocation, signal: AbortSignal): Promise<string> {
  if (location.objects !== undefined) return location.objects
  const path = await runGit(location, ['rev-parse', '--git-path', 'objects'], { signal })
  return resolve(location.cwd, path.toString().trim())
}
