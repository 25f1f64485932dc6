import type { Diff } from './read-diffs.ts'
import { rejectCandidate, type ScreenRejection } from './reasons.ts'
import { type DiffVerdict, FILE_BYTES_MAX, screenDiff, screenNames } from './screen-diff.ts'
import { diffNames, diffText, fetchMissingBlobs, type GitObjects, type TreePair } from './tree-pairs.ts'

/**
 * Returns the verdict on each tree pair. Screens file names first: most pairs are rejected by them, without opening or
 * fetching a file.
 */
export async function screenPairs(
  objects: GitObjects,
  pairs: readonly TreePair[],
  signal: AbortSignal,
): Promise<Map<TreePair, DiffVerdict>> {
  const verdicts = new Map<TreePair, DiffVerdict>()
  const open: Diff[] = []
  for await (const diff of diffNames(objects.place, [...new Set(pairs)], signal)) {
    const verdict = screenNames(diff)
    if (verdict) verdicts.set(diff.trees, verdict)
    else open.push(diff)
  }
  const sizes = await fetchMissingBlobs(objects, open.flatMap(listBlobs), signal)
  for (const diff of open) {
    const fault = rejectBlob(diff, sizes)
    if (fault) verdicts.set(diff.trees, fault)
  }
  const readable = open.map(({ trees }) => trees).filter((trees) => !verdicts.has(trees))
  for await (const diff of diffText(objects.place, readable, signal)) verdicts.set(diff.trees, screenDiff(diff))
  return verdicts
}

const listBlobs = ({ files }: Diff): string[] => files.flatMap(({ blobs }) => blobs)

function rejectBlob(diff: Diff, sizes: ReadonlyMap<string, number>): ScreenRejection | undefined {
  for (const { path, blobs } of diff.files) {
    if (blobs.some((id) => !sizes.has(id))) return rejectCandidate('no_base', `${path} is not in this clone`)
    const bytes = Math.max(0, ...blobs.map((id) => sizes.get(id) ?? 0))
    if (bytes > FILE_BYTES_MAX) return rejectCandidate('too_large', `${path} has ${bytes} bytes`)
  }
  return undefined
}
