import type { GitLocation } from '../../platform/git/settings.ts'
import type { ReadableRepository } from '../mirror/readable-repository.ts'
import { type Commit, toTrace } from './commit.ts'
import { listCommits } from './commit-log.ts'
import type { PullRequest, PullRequests } from './pull-request.ts'
import { type RecognisedCommit, recognise } from './recognise.ts'
import { checkReverted, createReverts, type Reverts } from './reverts.ts'

/** `onCommit` is called for each commit of the default branch; the commits of one rebased pull request count once. */
type GitHistoryOptions = { onCommit?: () => void }

/** Finds pull requests in the default branch of a clone, without code host or network. */
export const listGitHistory = (
  { place, tip, pullHeads }: Pick<ReadableRepository, 'place' | 'tip' | 'pullHeads'>,
  { onCommit = () => {} }: GitHistoryOptions = {},
): PullRequests => ({
  async *list(signal) {
    if (tip === undefined) return
    const heads = new Map([...pullHeads].map(([number, head]) => [head, number]))
    const rebased = await findRebased(place, { tip, pullHeads }, signal)
    const reverts = createReverts()
    await using commits = createLookAhead(listCommits(place, [tip], { signal }))
    for (let commit = await commits.next(); commit; commit = await commits.next()) {
      onCommit()
      const found = recognise(commit) ?? recognisePullHead(commit, heads)
      yield* toPullRequests(
        reverts,
        commit,
        found ? fromCommit(commit, found) : await findRebase(commits, commit, rebased),
      )
    }
  },
})

/** Finds a rebased pull request by its last commit and consumes its other commits. */
async function findRebase(commits: LookAhead<Commit>, last: Commit, all: Map<string, RebasedPullRequest>) {
  const whole = all.get(toTrace(last))
  if (!whole) return undefined
  const length = matchRebase(whole, [last, ...(await commits.peek(whole.traces.length - 1))])
  return length === 0 ? undefined : fromRebase(last, await commits.take(length - 1), whole)
}

/** Completes a pull request with `isReverted`. Reverts are tracked even if they are not pull requests. */
function toPullRequests(reverts: Reverts, commit: Commit, found: LandedPullRequest | undefined): PullRequest[] {
  const titles = found ? [commit.subject, found.title] : [commit.subject]
  const isReverted = checkReverted(reverts, { id: commit.id, titles, body: commit.body })
  return found ? [{ ...found, isReverted }] : []
}

type LandedPullRequest = Omit<PullRequest, 'isReverted'>

const fromCommit = (commit: Commit, { number, title, body, mark, branch }: RecognisedCommit): LandedPullRequest => ({
  ...toLanding(commit, 1),
  number,
  title,
  body,
  mark,
  branch,
})

function fromRebase(last: Commit, others: Commit[], { number, traces }: RebasedPullRequest): LandedPullRequest {
  // The first commit usually describes the pull request best.
  const { subject, body } = others.at(-1) ?? last
  return { ...toLanding(last, traces.length), number, title: subject, body, mark: 'rebase' }
}

const toLanding = ({ id, parents, authorName, committedAt }: Commit, length: number) => ({
  author: authorName,
  isBot: undefined,
  branch: undefined,
  into: undefined,
  issues: undefined,
  issueTexts: [],
  mergedAt: new Date(committedAt * 1000),
  head: id,
  base: length === 1 ? (parents[0] ?? `${id}~1`) : `${id}~${length}`,
})

/** Recognises a merge of, or a fast-forward to, the last commit of a pull request. */
function recognisePullHead(commit: Commit, heads: ReadonlyMap<string, number>): RecognisedCommit | undefined {
  const number = heads.get(commit.parents[1] ?? commit.id)
  return number === undefined ? undefined : { number, title: commit.subject, body: commit.body, mark: 'pull-head' }
}

/** A stream whose next items can be inspected before they are consumed. */
type LookAhead<Item> = AsyncDisposable & {
  next(): Promise<Item | undefined>
  peek(count: number): Promise<Item[]>
  take(count: number): Promise<Item[]>
}

function createLookAhead<Item>(stream: AsyncIterable<Item>): LookAhead<Item> {
  const iterator = stream[Symbol.asyncIterator]()
  const held: Item[] = []
  async function peek(count: number): Promise<Item[]> {
    while (held.length < count) {
      const { done, value } = await iterator.next()
      if (done) break
      held.push(value)
    }
    return held.slice(0, count)
  }
  const take = async (count: number): Promise<Item[]> => {
    await peek(count)
    return held.splice(0, count)
  }
  return {
    peek,
    take,
    next: async () => (await take(1))[0],
    [Symbol.asyncDispose]: async () => void (await iterator.return?.()),
  }
}

/** A pull request that was rebased onto the default branch. `traces` identify its commits, newest first. */
type RebasedPullRequest = { number: number; traces: readonly string[] }

const COMMITS_MAX = 200_000
/** Pull requests with more commits are never candidates. */
const LENGTH_MAX = 100

/**
 * Finds pull requests whose commits are not on the default branch themselves, by the trace of their last commit. A rebase
 * preserves author, time and subject. Comparing those needs no file contents, so it works in a partial clone.
 */
async function findRebased(
  place: GitLocation,
  { tip, pullHeads }: { tip: string; pullHeads: ReadonlyMap<number, string> },
  signal: AbortSignal,
): Promise<Map<string, RebasedPullRequest>> {
  const found = new Map<string, RebasedPullRequest>()
  if (pullHeads.size === 0) return found
  const commits = await listBranchCommits(place, tip, [...pullHeads.values()], signal)
  for (const [number, head] of pullHeads) {
    const traces = listTraces(commits, head)
    if (traces[0] !== undefined) found.set(traces[0], { number, traces })
  }
  return found
}

type BranchCommits = Map<string, { parent: string | undefined; trace: string }>

async function listBranchCommits(
  place: GitLocation,
  tip: string,
  heads: string[],
  signal: AbortSignal,
): Promise<BranchCommits> {
  const commits: BranchCommits = new Map()
  const order = ['--no-merges', '--ignore-missing']
  for await (const commit of listCommits(place, [...heads, `^${tip}`], { signal, order })) {
    if (commits.size === COMMITS_MAX) return new Map()
    commits.set(commit.id, { parent: commit.parents[0], trace: toTrace(commit) })
  }
  return commits
}

function listTraces(commits: BranchCommits, head: string): string[] {
  const traces: string[] = []
  let next = commits.get(head)
  while (next && traces.length < LENGTH_MAX) {
    traces.push(next.trace)
    next = next.parent === undefined ? undefined : commits.get(next.parent)
  }
  return traces
}

/**
 * Returns the length of the pull request if these commits, newest first, begin with all of its commits; otherwise 0.
 */
function matchRebase({ traces }: RebasedPullRequest, commits: readonly Commit[]): number {
  const isWhole = traces.every((trace, at) => {
    const commit = commits[at]
    return commit !== undefined && commit.parents.length === 1 && toTrace(commit) === trace
  })
  return isWhole ? traces.length : 0
}
