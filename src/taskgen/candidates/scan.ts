import type { Mirror } from '../../repos/mirror.ts'
import type { PullRequest, PullRequests } from '../../repos/pull-requests/pull-request.ts'
import type { Diff } from './read-diffs.ts'
import { rejectCandidate, type ScreenRejection } from './reasons.ts'
import { type DiffVerdict, FILE_BYTES_MAX, type ScreenedPullRequest, screenDiff, screenNames } from './screen-diff.ts'
import { screenText, type TextContext } from './screen-text.ts'
import { diffNames, diffText, fetchMissingBlobs, findTreePairs, type GitObjects, type TreePair } from './tree-pairs.ts'
import { openVerdictCache, type VerdictStore } from './verdict-cache.ts'

type ScanDeps = GitObjects & { pullRequests: PullRequests; verdicts: VerdictStore }

/** Pull requests per git process: amortises process start with bounded memory. */
const CHUNK_SIZE = 200

/** Yields every pull request with its verdict, newest first. Deterministic: the same history gives the same list. */
export async function* scan(
  deps: ScanDeps,
  context: TextContext,
  signal: AbortSignal,
): AsyncGenerator<ScreenedPullRequest, void, undefined> {
  const landed: LandedChanges = { numbers: new Set(), fingerprints: new Set() }
  let chunk: PullRequest[] = []
  for await (const pullRequest of deps.pullRequests.list(signal)) {
    chunk.push(pullRequest)
    if (chunk.length < CHUNK_SIZE) continue
    yield* await screenChunk(deps, chunk, context, landed, signal)
    chunk = []
  }
  yield* await screenChunk(deps, chunk, context, landed, signal)
}

/** Numbers and fingerprints of the pull requests screened so far. They are newer than the ones that follow. */
type LandedChanges = { numbers: Set<number>; fingerprints: Set<string> }

async function screenChunk(
  deps: ScanDeps,
  chunk: readonly PullRequest[],
  context: TextContext,
  landed: LandedChanges,
  signal: AbortSignal,
): Promise<ScreenedPullRequest[]> {
  const earlyRejections = chunk.map((each) => screenText(each, context) ?? rejectRepeatedNumber(each, landed))
  const undecided = chunk.filter((_, index) => earlyRejections[index] === undefined)
  const verdicts = await screenDiffs(deps, undecided, signal)
  return chunk.map((pullRequest, index) => {
    const verdict = earlyRejections[index] ?? verdicts.get(pullRequest) ?? rejectCandidate('no_base', pullRequest.base)
    return { pullRequest, verdict: rejectRepeatedChange(verdict, landed) ?? verdict }
  })
}

async function screenDiffs(deps: ScanDeps, pullRequests: readonly PullRequest[], signal: AbortSignal) {
  const { location, verdicts: cache } = deps
  const verdicts = new Map<PullRequest, DiffVerdict>()
  if (pullRequests.length === 0) return verdicts
  const pairs = await findTreePairs(location, pullRequests, signal)
  const uncached = pairs.filter((pair) => pair !== undefined).filter((pair) => !cache.get(pair))
  const fresh = await screenPairs(deps, uncached, signal)
  for (const [index, pullRequest] of pullRequests.entries()) {
    const pair = pairs[index] ?? ''
    const verdict = cache.get(pair) ?? fresh.get(pair)
    if (!verdict) continue
    verdicts.set(pullRequest, verdict)
    if (isCacheable(verdict)) cache.set(pair, verdict)
  }
  return verdicts
}

/** A missing base may be fetched later, so that verdict is not cached. */
const isCacheable = (verdict: DiffVerdict): boolean => verdict.kind === 'candidate' || verdict.reason !== 'no_base'

/**
 * Rejects an earlier merge of a pull request that was merged again, because the later one replaced its change. Remembers
 * the number otherwise.
 */
function rejectRepeatedNumber({ number }: PullRequest, { numbers }: LandedChanges): ScreenRejection | undefined {
  if (number === undefined) return undefined
  if (numbers.has(number)) return rejectCandidate('duplicate', `#${number} landed again`)
  numbers.add(number)
  return undefined
}

/** Rejects a change that landed again later. Remembers its fingerprint otherwise. */
function rejectRepeatedChange(verdict: DiffVerdict, { fingerprints }: LandedChanges): ScreenRejection | undefined {
  if (verdict.kind !== 'candidate') return undefined
  if (fingerprints.has(verdict.fingerprint)) return rejectCandidate('duplicate', 'the same change landed again')
  fingerprints.add(verdict.fingerprint)
  return undefined
}

/**
 * Returns the verdict on each tree pair. Screens file names first: most pairs are rejected by them, without opening or
 * fetching a file.
 */
async function screenPairs(
  objects: GitObjects,
  pairs: readonly TreePair[],
  signal: AbortSignal,
): Promise<Map<TreePair, DiffVerdict>> {
  const verdicts = new Map<TreePair, DiffVerdict>()
  const undecided: Diff[] = []
  for await (const diff of diffNames(objects.location, [...new Set(pairs)], signal)) {
    const verdict = screenNames(diff)
    if (verdict) verdicts.set(diff.trees, verdict)
    else undecided.push(diff)
  }
  const sizes = await fetchMissingBlobs(objects, undecided.flatMap(listBlobs), signal)
  for (const diff of undecided) {
    const rejection = rejectBlob(diff, sizes)
    if (rejection) verdicts.set(diff.trees, rejection)
  }
  const readable = undecided.map(({ trees }) => trees).filter((trees) => !verdicts.has(trees))
  for await (const diff of diffText(objects.location, readable, signal)) verdicts.set(diff.trees, screenDiff(diff))
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

type ScannableMirror = Mirror & { pullRequests: PullRequests }
type ScanMirrorOptions = { now: Date; signal: AbortSignal; cacheFile: string }

/**
 * Yields every pull request with its verdict, newest first. Breaking out of the iterator stops the scan; results so far
 * are cached.
 */
export async function* scanMirror(
  mirror: ScannableMirror,
  { now, signal, cacheFile }: ScanMirrorOptions,
): AsyncGenerator<ScreenedPullRequest, void, undefined> {
  const verdicts = await openVerdictCache(cacheFile)
  const { location, pullRequests, fetchBlobs, branch } = mirror
  try {
    yield* scan({ location, pullRequests, fetchBlobs, verdicts }, { now, defaultBranch: branch }, signal)
  } finally {
    // A full disk makes the next scan slower, but does not fail this one.
    await verdicts.save().catch(() => undefined)
  }
}
