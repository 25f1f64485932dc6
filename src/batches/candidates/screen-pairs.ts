import type { GitPlace } from '../../platform/git/settings.ts'
import type { Diff } from './read-diffs.ts'
import { type Rejection, rejected } from './reasons.ts'
import { type DiffVerdict, FILE_BYTES_MAX, screenDiff, screenNames } from './screen-diff.ts'
import { blobSizes, diffNames, diffText, type TreePair } from './tree-pairs.ts'

export type PairTools = {
  place: GitPlace
  /** For a partial clone: brings blobs that are missing. */
  fetchBlobs?: ((ids: readonly string[], signal: AbortSignal) => Promise<void>) | undefined
}

/** The verdict on each difference. Names first: most fall there, and then no file is opened, or even fetched. */
export async function screenPairs(
  tools: PairTools,
  pairs: readonly TreePair[],
  signal: AbortSignal,
): Promise<Map<TreePair, DiffVerdict>> {
  const verdicts = new Map<TreePair, DiffVerdict>()
  const open: Diff[] = []
  for await (const diff of diffNames(tools.place, [...new Set(pairs)], signal)) {
    const verdict = screenNames(diff)
    if (verdict) verdicts.set(diff.trees, verdict)
    else open.push(diff)
  }
  const sizes = await presentBlobs(tools, open.flatMap(blobsOf), signal)
  for (const diff of open) {
    const fault = blobFault(diff, sizes)
    if (fault) verdicts.set(diff.trees, fault)
  }
  const readable = open.map(({ trees }) => trees).filter((trees) => !verdicts.has(trees))
  for await (const diff of diffText(tools.place, readable, signal)) verdicts.set(diff.trees, screenDiff(diff))
  return verdicts
}

const blobsOf = ({ files }: Diff): string[] => files.flatMap(({ blobs }) => blobs)

async function presentBlobs({ place, fetchBlobs }: PairTools, ids: string[], signal: AbortSignal) {
  const sizes = await blobSizes(place, ids, signal)
  const missing = [...new Set(ids.filter((id) => !sizes.has(id)))]
  if (missing.length === 0 || !fetchBlobs) return sizes
  await fetchBlobs(missing, signal)
  return blobSizes(place, ids, signal)
}

function blobFault(diff: Diff, sizes: ReadonlyMap<string, number>): Rejection | undefined {
  for (const { path, blobs } of diff.files) {
    if (blobs.some((id) => !sizes.has(id))) return rejected('no_base', `${path} is not in this clone`)
    const bytes = Math.max(0, ...blobs.map((id) => sizes.get(id) ?? 0))
    if (bytes > FILE_BYTES_MAX) return rejected('too_large', `${path} has ${bytes} bytes`)
  }
  return undefined
}
