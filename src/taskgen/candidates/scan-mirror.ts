import type { Mirror } from '../../repos/mirror.ts'
import type { PullRequests } from '../../repos/pull-requests/pull-request.ts'
import { scan } from './scan.ts'
import type { ScreenedPullRequest } from './screen-diff.ts'
import { openVerdictCache } from './verdict-cache.ts'

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
  const { place, pullRequests, fetchBlobs, branch } = mirror
  try {
    yield* scan({ place, pullRequests, fetchBlobs, verdicts }, { now, defaultBranch: branch }, signal)
  } finally {
    // A full disk makes the next scan slower, but does not fail this one.
    await verdicts.save().catch(() => undefined)
  }
}
