import { LINE_END, splitStream, streamGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { type Diff, readDiffs } from './read-diffs.ts'

const LINE_BYTES_MAX = 16 * 1024
const TREE_LINE = /^([0-9a-f]+) tree /
const BLOB_LINE = /^([0-9a-f]+) blob (\d+)$/

/** Two trees as `<id> <id>`: before and after. Equal pairs have equal diffs in any repository. */
export type TreePair = string

/** Returns the tree pairs in input order. Undefined if one of the two trees is missing. */
export async function findTreePairs(
  location: GitLocation,
  ranges: readonly { base: string; head: string }[],
  signal: AbortSignal,
): Promise<(TreePair | undefined)[]> {
  const objectNames = ranges.flatMap(({ base, head }) => [`${base}^{tree}`, `${head}^{tree}`])
  const ids: (string | undefined)[] = []
  for await (const line of checkObjects(location, objectNames, signal)) ids.push(TREE_LINE.exec(line)?.[1])
  return ranges.map((_, index) => {
    const [before, after] = [ids[index * 2], ids[index * 2 + 1]]
    return before === undefined || after === undefined ? undefined : `${before} ${after}`
  })
}

/** Objects of a repository. `fetchBlobs` fetches files that a partial clone lacks. */
export type GitObjects = {
  location: GitLocation
  fetchBlobs?: ((ids: readonly string[], signal: AbortSignal) => Promise<void>) | undefined
}

/** Fetches missing blobs and returns the sizes of all. Blobs that are not available have no entry. */
export async function fetchMissingBlobs(
  { location, fetchBlobs }: GitObjects,
  blobIds: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const ids = [...new Set(blobIds)]
  const sizes = await readBlobSizes(location, ids, signal)
  const missing = ids.filter((id) => !sizes.has(id))
  if (missing.length === 0 || !fetchBlobs) return sizes
  await fetchBlobs(missing, signal)
  return readBlobSizes(location, ids, signal)
}

async function readBlobSizes(
  location: GitLocation,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  for await (const line of checkObjects(location, ids, signal)) {
    const [, id, size] = BLOB_LINE.exec(line) ?? []
    if (id !== undefined) sizes.set(id, Number(size))
  }
  return sizes
}

const checkObjects = (
  location: GitLocation,
  objectNames: readonly string[],
  signal: AbortSignal,
): AsyncIterable<string> =>
  splitStream(
    streamGit(location, ['cat-file', '--batch-check'], { signal, input: joinLines(objectNames) }),
    LINE_END,
    LINE_BYTES_MAX,
  )

const NAMES_ARGS = ['diff-tree', '--stdin', '-r', '--raw', '--full-index', '--no-abbrev', '--no-renames']
const TEXT_ARGS = [
  '-p',
  '-U0',
  '--no-color',
  '--no-ext-diff',
  '--no-textconv',
  '--diff-algorithm=myers',
  '--no-indent-heuristic',
]

/** Lists the files that differ, without opening them. */
export const diffNames = (
  location: GitLocation,
  pairs: readonly TreePair[],
  signal: AbortSignal,
): AsyncIterable<Diff> => streamDiffs(location, NAMES_ARGS, pairs, signal)

/** Lists the lines that differ. A moved file counts as one file. Every blob must be available. */
export const diffText = (location: GitLocation, pairs: readonly TreePair[], signal: AbortSignal): AsyncIterable<Diff> =>
  streamDiffs(location, [...NAMES_ARGS.filter((arg) => arg !== '--no-renames'), '-M', ...TEXT_ARGS], pairs, signal)

async function* streamDiffs(
  location: GitLocation,
  args: readonly string[],
  pairs: readonly TreePair[],
  signal: AbortSignal,
) {
  if (pairs.length === 0) return
  yield* readDiffs(
    splitStream(streamGit(location, args, { signal, input: joinLines(pairs) }), LINE_END, LINE_BYTES_MAX),
  )
}

/** Joins all lines into one chunk, because writing single lines to a stream is slow. */
function joinLines(texts: readonly string[]): string[] {
  return texts.length === 0 ? [] : [`${texts.join('\n')}\n`]
}
