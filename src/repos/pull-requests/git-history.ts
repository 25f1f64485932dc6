import type { Reading } from '../mirror/reading.ts'
import { type Commit, traceOf } from './commit.ts'
import { listCommits } from './first-parents.ts'
import { type LookAhead, lookAhead } from './look-ahead.ts'
import type { PullRequest, PullRequests } from './pull-request.ts'
import { findRebased, type Rebased, rebasedLength } from './rebases.ts'
import { type Recognised, recognise } from './recognise.ts'
import { isTakenBack, newReverts, type Reverts } from './reverts.ts'

/** `onCommit` counts the commits of the default branch; those that one rebase brought count once. */
type Options = { onCommit?: () => void }

/** Pull requests as plain git tells them: from the default branch of a clone, with no code host and no network. */
export const gitHistory = (
  { place, tip, pullHeads }: Pick<Reading, 'place' | 'tip' | 'pullHeads'>,
  { onCommit = () => {} }: Options = {},
): PullRequests => ({
  async *list(signal) {
    if (tip === undefined) return
    const heads = new Map([...pullHeads].map(([number, head]) => [head, number]))
    const rebased = await findRebased(place, { tip, pullHeads }, signal)
    const reverts = newReverts()
    await using commits = lookAhead(listCommits(place, [tip], { signal }))
    for (let commit = await commits.next(); commit; commit = await commits.next()) {
      onCommit()
      const found = recognise(commit) ?? atPullHead(commit, heads)
      yield* told(reverts, commit, found ? asFound(commit, found) : await findWhole(commits, commit, rebased))
    }
  },
})

/** Its other commits are taken off the stream: they are no pull requests of their own. */
async function findWhole(commits: LookAhead<Commit>, last: Commit, all: Map<string, Rebased>) {
  const whole = all.get(traceOf(last))
  if (!whole) return undefined
  const length = rebasedLength(whole, [last, ...(await commits.peek(whole.traces.length - 1))])
  return length === 0 ? undefined : asRebased(last, await commits.take(length - 1), whole)
}

/** Reverts count, whether they came as a pull request or not. What has no parent landed on nothing. */
function told(reverts: Reverts, commit: Commit, found: Landed | undefined): PullRequest[] {
  const titles = found ? [commit.subject, found.title] : [commit.subject]
  const isReverted = isTakenBack(reverts, { id: commit.id, titles, body: commit.body })
  return found ? [{ ...found, isReverted }] : []
}

type Landed = Omit<PullRequest, 'isReverted'>

const asFound = (commit: Commit, { number, title, body, mark, branch }: Recognised): Landed => ({
  ...landing(commit, 1),
  ...{ number, title, body, mark, branch },
})

function asRebased(last: Commit, others: Commit[], { number, traces }: Rebased): Landed {
  // Its first commit says best what it is about.
  const { subject, body } = others.at(-1) ?? last
  return { ...landing(last, traces.length), number, title: subject, body, mark: 'rebase' }
}

const landing = ({ id, parents, authorName, committedAt }: Commit, length: number) => ({
  ...{ author: authorName, isBot: undefined, branch: undefined, into: undefined, issues: undefined, issueTexts: [] },
  mergedAt: new Date(committedAt * 1000),
  head: id,
  base: length === 1 ? (parents[0] ?? `${id}~1`) : `${id}~${length}`,
})

/** A merge of a pull request's end, or a fast-forward to it. */
function atPullHead(commit: Commit, heads: ReadonlyMap<string, number>): Recognised | undefined {
  const number = heads.get(commit.parents[1] ?? commit.id)
  return number === undefined ? undefined : { number, title: commit.subject, body: commit.body, mark: 'pull-head' }
}
