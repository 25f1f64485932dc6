import type { Mirror } from '../../repos/mirror.ts'
import type { PullRequests } from '../../repos/pull-requests/pull-request.ts'
import type { Judged } from './judged.ts'
import { openVerdicts } from './kept-verdicts.ts'
import { scan } from './scan.ts'

type Scanned = Mirror & { pullRequests: PullRequests }
type Options = { now: Date; signal: AbortSignal; cacheFile: string }

/** Every pull request with its verdict, newest first. Who stops reading stops the scan; what was found out is kept. */
export async function* scanMirror(
  mirror: Scanned,
  { now, signal, cacheFile }: Options,
): AsyncGenerator<Judged, void, undefined> {
  const verdicts = await openVerdicts(cacheFile)
  const { place, pullRequests, fetchBlobs, branch } = mirror
  try {
    yield* scan({ place, pullRequests, fetchBlobs, verdicts }, { now, defaultBranch: branch }, signal)
  } finally {
    // A full disk makes the next scan slow, and this one no failure.
    await verdicts.save().catch(() => undefined)
  }
}
