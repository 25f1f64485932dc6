import type { Mirror } from '../../repos/mirror.ts'
import type { PullRequests } from '../../repos/pull-requests/pull-request.ts'
import type { ScreenedPullRequest } from './judged.ts'
import { openVerdictCache } from './kept-verdicts.ts'
import { scan } from './scan.ts'

type ScannableMirror = Mirror & { pullRequests: PullRequests }
type ScanMirrorOptions = { now: Date; signal: AbortSignal; cacheFile: string }

/** Every pull request with its verdict, newest first. Who stops reading stops the scan; what was found out is kept. */
export async function* scanMirror(
  mirror: ScannableMirror,
  { now, signal, cacheFile }: ScanMirrorOptions,
): AsyncGenerator<ScreenedPullRequest, void, undefined> {
  const verdicts = await openVerdictCache(cacheFile)
  const { place, pullRequests, fetchBlobs, branch } = mirror
  try {
    yield* scan({ place, pullRequests, fetchBlobs, verdicts }, { now, defaultBranch: branch }, signal)
  } finally {
    // A full disk makes the next scan slow, and this one no failure.
    await verdicts.save().catch(() => undefined)
  }
}
