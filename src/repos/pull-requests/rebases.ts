import type { GitPlace } from '../../platform/git/settings.ts'
import { type Commit, traceOf } from './commit.ts'
import { listCommits } from './first-parents.ts'

/** A pull request whose commits were put onto the default branch one by one. `traces`: its commits, newest first. */
export type Rebased = { number: number; traces: readonly string[] }

const COMMITS_MAX = 200_000
/** A pull request of more commits is no candidate anyway. */
const LENGTH_MAX = 100

/**
 * Pull requests that are not on the default branch as they were, by the trace of their last commit. A rebase keeps
 * author, time and subject; comparing those needs no file, so it works where a partial clone has none.
 */
export async function findRebased(
  place: GitPlace,
  { tip, pullHeads }: { tip: string; pullHeads: ReadonlyMap<number, string> },
  signal: AbortSignal,
): Promise<Map<string, Rebased>> {
  const found = new Map<string, Rebased>()
  if (pullHeads.size === 0) return found
  const commits = await commitsBeside(place, tip, [...pullHeads.values()], signal)
  for (const [number, head] of pullHeads) {
    const traces = tracesFrom(commits, head)
    if (traces[0] !== undefined) found.set(traces[0], { number, traces })
  }
  return found
}

type Beside = Map<string, { parent: string | undefined; trace: string }>

async function commitsBeside(place: GitPlace, tip: string, heads: string[], signal: AbortSignal): Promise<Beside> {
  const commits: Beside = new Map()
  const order = ['--no-merges', '--ignore-missing']
  for await (const commit of listCommits(place, [...heads, `^${tip}`], { signal, order })) {
    if (commits.size === COMMITS_MAX) return new Map()
    commits.set(commit.id, { parent: commit.parents[0], trace: traceOf(commit) })
  }
  return commits
}

function tracesFrom(commits: Beside, head: string): string[] {
  const traces: string[] = []
  let next = commits.get(head)
  while (next && traces.length < LENGTH_MAX) {
    traces.push(next.trace)
    next = next.parent === undefined ? undefined : commits.get(next.parent)
  }
  return traces
}

/** How many of these commits, newest first, are this pull request: all of its own, or none. */
export function rebasedLength({ traces }: Rebased, commits: readonly Commit[]): number {
  const isWhole = traces.every((trace, at) => {
    const commit = commits[at]
    return commit !== undefined && commit.parents.length === 1 && traceOf(commit) === trace
  })
  return isWhole ? traces.length : 0
}
