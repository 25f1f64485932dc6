import type { PullRequest, PullRequests } from '../../repos/pull-requests/pull-request.ts'
import type { Judged } from './judged.ts'
import { type Rejection, rejected } from './reasons.ts'
import type { DiffVerdict } from './screen-diff.ts'
import { screenPairs } from './screen-pairs.ts'
import { screenText, type TextContext } from './screen-text.ts'
import { findTreePairs, type GitObjects } from './tree-pairs.ts'

/** Verdicts on differences that were reached before. */
export type Verdicts = Pick<Map<string, DiffVerdict>, 'get' | 'set'>

type ScanTools = GitObjects & { pullRequests: PullRequests; verdicts: Verdicts }

/** So many wait for git at once: enough that starting it does not count, and few enough to hold. */
const CHUNK = 200

/** Every pull request with its verdict, newest first. The same history gives the same list, on every machine. */
export async function* scan(
  tools: ScanTools,
  context: TextContext,
  signal: AbortSignal,
): AsyncGenerator<Judged, void, undefined> {
  const seen: Seen = { numbers: new Set(), fingerprints: new Set() }
  let chunk: PullRequest[] = []
  for await (const pullRequest of tools.pullRequests.list(signal)) {
    chunk.push(pullRequest)
    if (chunk.length < CHUNK) continue
    yield* await judge(tools, chunk, context, seen, signal)
    chunk = []
  }
  yield* await judge(tools, chunk, context, seen, signal)
}

type Seen = { numbers: Set<number>; fingerprints: Set<string> }

async function judge(
  tools: ScanTools,
  chunk: readonly PullRequest[],
  context: TextContext,
  seen: Seen,
  signal: AbortSignal,
): Promise<Judged[]> {
  const early = chunk.map((each) => screenText(each, context) ?? landedAgain(each, seen))
  const open = chunk.filter((_, at) => early[at] === undefined)
  const verdicts = await judgeDiffs(tools, open, signal)
  return chunk.map((pullRequest, at) => {
    const verdict = early[at] ?? verdicts.get(pullRequest) ?? rejected('no_base', pullRequest.base)
    return { pullRequest, verdict: sameAgain(verdict, seen) ?? verdict }
  })
}

async function judgeDiffs(tools: ScanTools, open: readonly PullRequest[], signal: AbortSignal) {
  const { place, verdicts } = tools
  const found = new Map<PullRequest, DiffVerdict>()
  if (open.length === 0) return found
  const pairs = await findTreePairs(place, open, signal)
  const unknown = pairs.filter((pair) => pair !== undefined).filter((pair) => !verdicts.get(pair))
  const fresh = await screenPairs(tools, unknown, signal)
  for (const [at, pullRequest] of open.entries()) {
    const pair = pairs[at] ?? ''
    const verdict = verdicts.get(pair) ?? fresh.get(pair)
    if (!verdict) continue
    found.set(pullRequest, verdict)
    if (isLasting(verdict)) verdicts.set(pair, verdict)
  }
  return found
}

/** What is missing today may be there tomorrow. */
const isLasting = (verdict: DiffVerdict): boolean => verdict.kind === 'candidate' || verdict.reason !== 'no_base'

/** The newest landing of a number counts; what an older one brought was changed since. */
function landedAgain({ number }: PullRequest, { numbers }: Seen): Rejection | undefined {
  if (number === undefined) return undefined
  if (numbers.has(number)) return rejected('duplicate', `#${number} landed again`)
  numbers.add(number)
  return undefined
}

function sameAgain(verdict: DiffVerdict, { fingerprints }: Seen): Rejection | undefined {
  if (verdict.kind !== 'candidate') return undefined
  if (fingerprints.has(verdict.fingerprint)) return rejected('duplicate', 'the same change landed again')
  fingerprints.add(verdict.fingerprint)
  return undefined
}
