import { languages } from '../../grading/languages/languages.ts'
import { classifyPath } from '../../grading/path-kinds.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { NUL, parseSeconds, readBlobs, runGit, splitStream, streamGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { fetchMissingBlobs, type GitObjects } from '../candidates/tree-pairs.ts'
import { done, reject, type StageResult } from '../stage-result.ts'
import type { Gitlink } from './dockerfile.ts'

export type TreeEntry = { path: string; kind: 'file' | 'program' | 'link'; id: string; size: number }

/** A git tree, sorted by path. */
export type BaseTree = {
  tree: string
  committedAt: Date
  entries: readonly TreeEntry[]
  gitlinks: readonly Gitlink[]
  facts: TreeFacts
}

const FILES_MAX = 100_000
const FILE_BYTES_MAX = 100 * 1024 * 1024
const TREE_BYTES_MAX = 1024 ** 3
const NAME_BYTES_MAX = 16 * 1024
/** Maximum length of all paths together. Files in deep folders have long paths, although the tree itself is small. */
const PATHS_LENGTH_MAX = 32 * 1024 * 1024
const PATH_LENGTH_MAX = 1000
const PATH_DEPTH_MAX = 64
/** Maximum number of folders. Trees that git stores once may be in many places, so a small repository may have many. */
const FOLDERS_MAX = 200_000

/** Lists the files of a tree and reads those that describe its build. Nothing is checked out or executed. */
export async function readTree(
  objects: GitObjects,
  commit: string,
  signal: AbortSignal,
): Promise<StageResult<BaseTree>> {
  const { location } = objects
  // `git show` would read files that the commit changes, which a partial clone may lack.
  const args = ['rev-list', '--max-count=1', '--format=%T %ct', `${commit}^{commit}`]
  const lines = (await runGit(location, args, { signal })).toString().trim().split('\n')
  const [tree = '', seconds] = lines.at(-1)?.split(' ') ?? []
  const { listed, gitlinks, isComplete } = await listEntries(location, tree, signal)
  if (!isComplete)
    return reject('too_large', `The tree has more than ${FILES_MAX} files, or paths of ${PATHS_LENGTH_MAX} characters.`)
  const paths = [...listed, ...gitlinks].map(pathOf).sort()
  const fault = findTreeFault(paths) ?? findGitlinkFault(gitlinks)
  if (fault) return reject('env_build_failed', fault)
  const entries = await addSizes(objects, listed, signal)
  const sizeFault = findSizeFault(entries)
  if (sizeFault) return reject('too_large', sizeFault)
  const texts = await readTexts(location, entries, signal)
  const committedAt = new Date(parseSeconds(seconds) * 1000)
  const treeFacts = { paths: new Set(entries.map(pathOf)), texts, committedAt }
  return done({ tree, committedAt, entries, gitlinks, facts: treeFacts })
}

const pathOf = ({ path }: { path: string }): string => path

const LINE = /^(\d+) (\w+) ([0-9a-f]+)\t(.+)$/s
/** Kinds by the mode that git stores. Files of other modes are plain. */
const KINDS_BY_MODE: Record<string, TreeEntry['kind']> = { '120000': 'link', '100755': 'program' }

type ListedTree = { listed: Omit<TreeEntry, 'size'>[]; gitlinks: Gitlink[]; isComplete: boolean }

async function listEntries(location: GitLocation, tree: string, signal: AbortSignal): Promise<ListedTree> {
  const listed: ListedTree['listed'] = []
  const gitlinks: Gitlink[] = []
  let pathsLength = 0
  const isTooLarge = () => listed.length + gitlinks.length > FILES_MAX || pathsLength > PATHS_LENGTH_MAX
  const stream = streamGit(location, ['ls-tree', '-r', '-z', '--full-tree', tree], { signal })
  for await (const piece of splitStream(stream, NUL, NAME_BYTES_MAX)) {
    const [, mode = '', type, id = '', name = ''] = LINE.exec(piece) ?? []
    const path = Buffer.from(name, 'latin1').toString()
    if (type === 'commit') gitlinks.push({ path, commit: id })
    if (type === 'blob') listed.push({ path, kind: KINDS_BY_MODE[mode] ?? 'file', id })
    pathsLength += path.length
    if (isTooLarge()) break
  }
  return { listed: listed.sort((a, b) => (a.path < b.path ? -1 : 1)), gitlinks, isComplete: !isTooLarge() }
}

async function addSizes(objects: GitObjects, listed: readonly Omit<TreeEntry, 'size'>[], signal: AbortSignal) {
  const ids = listed.map(({ id }) => id)
  const sizes = await fetchMissingBlobs(objects, ids, signal)
  return listed.map((entry): TreeEntry => {
    const size = sizes.get(entry.id)
    if (size === undefined) throw new Error(`The file ${JSON.stringify(entry.path)} is not in this clone.`)
    return { ...entry, size }
  })
}

/** Returns the first fault in the sizes of the files of a tree. */
export function findSizeFault(entries: readonly TreeEntry[]): string | undefined {
  const huge = entries.find(({ size }) => size > FILE_BYTES_MAX)
  if (huge) return `${JSON.stringify(huge.path)} has more than ${FILE_BYTES_MAX} bytes.`
  const total = entries.reduce((sum, { size }) => sum + size, 0)
  return total > TREE_BYTES_MAX ? `The tree has more than ${TREE_BYTES_MAX} bytes.` : undefined
}

const TEXT_BYTES_MAX = 512 * 1024
const LOCK_BYTES_MAX = 4 * 1024 * 1024
const TEXTS_MAX = 400
/** Maximum size of all texts together, because rules read them in one step. */
const TEXTS_BYTES_MAX = 16 * 1024 * 1024

async function readTexts(location: GitLocation, entries: readonly TreeEntry[], signal: AbortSignal) {
  const selected = entries
    .filter(({ path, kind, size }) => kind !== 'link' && size <= bytesMaxOf(path) && isBuildFile(path))
    .sort((a, b) => rankForReading(a.path) - rankForReading(b.path))
    .slice(0, TEXTS_MAX)
    .filter(createBytesFilter(TEXTS_BYTES_MAX))
  const texts = new Map<string, string>()
  for await (const { path, content } of readBlobs(location, selected, { signal, bytesMax: LOCK_BYTES_MAX })) {
    texts.set(path, content.toString())
  }
  return texts
}

/** Returns a predicate that is true until the files that it has been called with exceed a total size. */
function createBytesFilter(bytesMax: number): (entry: TreeEntry) => boolean {
  let remaining = bytesMax
  return ({ size }) => {
    remaining -= size
    return remaining >= 0
  }
}

const bytesMaxOf = (path: string): number => (/\.lock$/i.test(path) ? LOCK_BYTES_MAX : TEXT_BYTES_MAX)

/** Ranks files by depth, with all tests last: there may be many, and a few are enough to recognise the runner. */
const rankForReading = (path: string): number =>
  path.split('/').length + (classifyPath(path) === 'test' ? PATH_DEPTH_MAX : 0)

const BUILD_FILE_NAMES = new Set(languages.flatMap(({ buildFiles }) => buildFiles))
const BUILD_FILE_PATTERNS = languages.flatMap(({ buildFilePatterns }) => buildFilePatterns)
const TEST_FILE_PATTERNS = languages.flatMap(({ readTestFiles }) => readTestFiles ?? [])
/** CI configurations show how the tests are run. */
const CI_FILE = /^(?:\.github\/workflows\/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|\.circleci\/config\.yml)$/
const BUILD_FILE_DEPTH_MAX = 5

/** Returns true if the text of a file is read: build and CI configuration, and tests, which show their runner. */
function isBuildFile(path: string): boolean {
  const parts = path.split('/')
  const name = parts.at(-1) ?? ''
  if (parts.length > BUILD_FILE_DEPTH_MAX || parts.includes('node_modules')) return false
  if (
    BUILD_FILE_NAMES.has(name.toLowerCase()) ||
    BUILD_FILE_PATTERNS.some((pattern) => pattern.test(name)) ||
    CI_FILE.test(path)
  )
    return true
  if (parts[0] === 'requirements' && name.endsWith('.txt')) return true
  return TEST_FILE_PATTERNS.some((pattern) => pattern.test(name)) && classifyPath(path) === 'test'
}

const GITLINKS_MAX = 100

/** Returns why the submodules cannot be used: the Dockerfile has a line with the path of each. */
function findGitlinkFault(gitlinks: readonly Gitlink[]): string | undefined {
  if (gitlinks.length > GITLINKS_MAX) return `The tree has more than ${GITLINKS_MAX} submodules.`
  const bad = gitlinks.find(({ path }) => /\p{C}/u.test(path) || path.length > PATH_LENGTH_MAX)
  return bad && `The path of a submodule is not valid: ${JSON.stringify(bad.path.slice(0, 200))}.`
}

/** Names that git refuses to check out: they leave the tree or write into `.git`. */
const FORBIDDEN = /^(?:\.{0,2}|\.git[. ]*|git~1)$/i
/** Invisible characters, which some file systems ignore. */
const INVISIBLE = /[\u200c-\u200f\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff]/g
/** Replaces bytes that are not UTF-8 when a name is decoded. */
const REPLACEMENT_CHARACTER = '\ufffd'

/** Returns the first fault of an untrusted tree, or undefined if it can be written to disk. */
export function findTreeFault(paths: readonly string[]): string | undefined {
  const earlierPaths = new Set<string>()
  const folders = new Set<string>()
  for (const path of paths) {
    const fault = earlierPaths.has(path) ? 'Two files have the same name' : findPathFault(path)
    if (fault !== undefined) return `${fault}: ${JSON.stringify(path.slice(0, 200))}.`
    earlierPaths.add(path)
    addFolders(path, folders)
    if (folders.size > FOLDERS_MAX) return `The tree has more than ${FOLDERS_MAX} folders.`
  }
  const fileAndFolder = paths.find((path) => folders.has(path))
  return fileAndFolder === undefined
    ? undefined
    : `A file and a folder have the same name: ${JSON.stringify(fileAndFolder.slice(0, 200))}.`
}

function findPathFault(path: string): string | undefined {
  if (path.length > PATH_LENGTH_MAX) return `A path has more than ${PATH_LENGTH_MAX} characters`
  if (path.includes(REPLACEMENT_CHARACTER)) return 'A file name is not UTF-8'
  const parts = path.split('/')
  if (parts.length > PATH_DEPTH_MAX) return `A path has more than ${PATH_DEPTH_MAX} parts`
  const isForbidden = parts.some((part) => FORBIDDEN.test(part.replaceAll(INVISIBLE, '')))
  return isForbidden ? 'git does not check out files of this name' : undefined
}

/** Adds all folders above a path. If one is known, so are those above it. */
export function addFolders(path: string, folders: Set<string>): void {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    const folder = path.slice(0, end)
    if (folders.has(folder)) return
    folders.add(folder)
  }
}

/** Beginning and size limits of the pointer files that Git LFS commits instead of the content. */
const POINTER =
  /^version https:\/\/(?:git-lfs\.github\.com|hawser\.github\.com)\/spec\/v1\n(?:.*\n)*?oid sha256:[0-9a-f]{64}\n/
const POINTER_BYTES_MIN = 110
const POINTER_BYTES_MAX = 1024
const POINTERS_MAX = 5000
const ATTRIBUTES_BYTES_MAX = 64 * 1024
const ATTRIBUTES_MAX = 50

/**
 * Lists the files of a tree whose content is in Git LFS. They are pointers in the image, because only the objects of git
 * are mirrored. Trees without the attribute are not searched.
 */
export async function listLfsPointers(
  location: GitLocation,
  entries: readonly TreeEntry[],
  signal: AbortSignal,
): Promise<string[]> {
  const files = entries.filter(({ kind }) => kind !== 'link')
  const attributes = files
    .filter(({ path, size }) => /(?:^|\/)\.gitattributes$/.test(path) && size <= ATTRIBUTES_BYTES_MAX)
    .slice(0, ATTRIBUTES_MAX)
  if (!(await usesLfs(location, attributes, signal))) return []
  const maybePointers = files
    .filter(({ size }) => size >= POINTER_BYTES_MIN && size <= POINTER_BYTES_MAX)
    .slice(0, POINTERS_MAX)
  const pointers: string[] = []
  for await (const { path, content } of readBlobs(location, maybePointers, { signal, bytesMax: POINTER_BYTES_MAX }))
    if (POINTER.test(content.toString('latin1'))) pointers.push(path)
  return pointers
}

async function usesLfs(location: GitLocation, attributes: readonly TreeEntry[], signal: AbortSignal): Promise<boolean> {
  for await (const { content } of readBlobs(location, attributes, { signal, bytesMax: ATTRIBUTES_BYTES_MAX }))
    if (/\sfilter=lfs\b/.test(content.toString('latin1'))) return true
  return false
}
