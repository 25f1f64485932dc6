import { decodeUtf8, NUL, parseSeconds, splitStream, streamGit } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import type { ReadableRepository } from '../mirror/local-clone.ts'
import type { Mark, PullRequest, PullRequests } from './pull-request.ts'

/** `onCommit` is called for each commit of the default branch; the commits of one rebased pull request count once. */
type GitHistoryOptions = { onCommit?: () => void }

/** Lists pull requests in the default branch of a clone, without code host or network. */
export const listGitHistory = (
  { location, tip, pullHeads }: Pick<ReadableRepository, 'location' | 'tip' | 'pullHeads'>,
  { onCommit = () => {} }: GitHistoryOptions = {},
): PullRequests => ({
  async *list(signal) {
    if (tip === undefined) return
    const heads = new Map([...pullHeads].map(([number, head]) => [head, number]))
    const rebased = await listRebased(location, { tip, pullHeads }, signal)
    yield* listBranch([tip], {
      location,
      heads,
      rebased,
      reverts: createReverts(),
      onCommit,
      signal,
      branchesLeft: { count: BRANCHES_MAX },
    })
  },
})

type HistoryContext = {
  location: GitLocation
  /** Numbers of pull requests by the id of their last commit. */
  heads: ReadonlyMap<string, number>
  /** Rebased pull requests by the trace of their last commit. */
  rebased: Map<string, RebasedPullRequest>
  reverts: Reverts
  onCommit: () => void
  signal: AbortSignal
  /** Number of merged branches that may still be read, each with its own git process. */
  branchesLeft: { count: number }
}

const BRANCHES_MAX = 500

/** Lists the pull requests that landed on a branch, and on other branches that were merged into it as a whole. */
async function* listBranch(
  revisions: readonly string[],
  context: HistoryContext,
): AsyncGenerator<PullRequest, void, undefined> {
  const { location, heads, rebased, reverts, onCommit, signal, branchesLeft } = context
  await using commits = createLookAhead(listCommits(location, revisions, { signal }))
  for (let commit = await commits.next(); commit; commit = await commits.next()) {
    onCommit()
    const recognised = recognisePullRequest(commit) ?? recognisePullHead(commit, heads)
    const found = recognised ? fromCommit(commit, recognised) : await findRebase(commits, commit, rebased)
    yield* toPullRequests(reverts, commit, found ?? fromClosing(commit))
    const [into, branch] = commit.parents
    if (found || branch === undefined || !BRANCH_MERGE.test(commit.subject) || branchesLeft.count === 0) continue
    branchesLeft.count -= 1
    yield* listBranch([branch, `^${into}`], context)
  }
}

/** Matches merges of maintenance branches, `Merge branch '3.1.x'`, whose pull requests landed there first. */
const BRANCH_MERGE = /^Merge (?:remote-tracking )?branch(?:es)? '/

/** Finds a rebased pull request by its last commit and consumes its other commits. */
async function findRebase(commits: LookAhead<Commit>, last: Commit, rebased: Map<string, RebasedPullRequest>) {
  const candidate = rebased.get(toTrace(last))
  if (!candidate) return undefined
  const length = matchRebase(candidate, [last, ...(await commits.peek(candidate.traces.length - 1))])
  return length === 0 ? undefined : fromRebase(last, await commits.take(length - 1), candidate)
}

/** Completes a pull request with `isReverted`. Reverts are tracked even if they are not pull requests. */
function toPullRequests(reverts: Reverts, commit: Commit, found: LandedPullRequest | undefined): PullRequest[] {
  const titles = found ? [commit.subject, found.title] : [commit.subject]
  const isReverted = checkReverted(reverts, { id: commit.id, titles, body: commit.body })
  return found ? [{ ...found, isReverted }] : []
}

/** A pull request of which it is not known yet whether it was reverted. */
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

/** Returns the properties that follow from the last commit of a pull request. `length` is the number of its commits. */
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
  const buffered: Item[] = []
  async function peek(count: number): Promise<Item[]> {
    while (buffered.length < count) {
      const { done, value } = await iterator.next()
      if (done) break
      buffered.push(value)
    }
    return buffered.slice(0, count)
  }
  const take = async (count: number): Promise<Item[]> => {
    await peek(count)
    return buffered.splice(0, count)
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
const PULL_REQUEST_COMMITS_MAX = 100

/**
 * Lists pull requests whose commits are not on the default branch themselves, by the trace of their last commit. A rebase
 * preserves author, time and subject. Comparing those needs no file contents, so it works in a partial clone.
 */
async function listRebased(
  location: GitLocation,
  { tip, pullHeads }: { tip: string; pullHeads: ReadonlyMap<number, string> },
  signal: AbortSignal,
): Promise<Map<string, RebasedPullRequest>> {
  const found = new Map<string, RebasedPullRequest>()
  if (pullHeads.size === 0) return found
  const commits = await listBranchCommits(location, tip, [...pullHeads.values()], signal)
  for (const [number, head] of pullHeads) {
    const traces = listTraces(commits, head)
    if (traces[0] !== undefined) found.set(traces[0], { number, traces })
  }
  return found
}

type BranchCommits = Map<string, { parent: string | undefined; trace: string }>

async function listBranchCommits(
  location: GitLocation,
  tip: string,
  heads: string[],
  signal: AbortSignal,
): Promise<BranchCommits> {
  const commits: BranchCommits = new Map()
  const selection = ['--no-merges', '--ignore-missing']
  for await (const commit of listCommits(location, [...heads, `^${tip}`], { signal, selection })) {
    if (commits.size === COMMITS_MAX) return new Map()
    commits.set(commit.id, { parent: commit.parents[0], trace: toTrace(commit) })
  }
  return commits
}

function listTraces(commits: BranchCommits, head: string): string[] {
  const traces: string[] = []
  let next = commits.get(head)
  while (next && traces.length < PULL_REQUEST_COMMITS_MAX) {
    traces.push(next.trace)
    next = next.parent === undefined ? undefined : commits.get(next.parent)
  }
  return traces
}

/**
 * Returns the length of the pull request if these commits, newest first, begin with all of its commits; otherwise 0.
 */
function matchRebase({ traces }: RebasedPullRequest, commits: readonly Commit[]): number {
  const isComplete = traces.every((trace, at) => {
    const commit = commits[at]
    return commit !== undefined && commit.parents.length === 1 && toTrace(commit) === trace
  })
  return isComplete ? traces.length : 0
}

const FIELDS = ['%H', '%P', '%an', '%ae', '%at', '%ct', '%s', '%b']
const FORMAT = `--format=${FIELDS.join('%x00')}`
/** Maximum size of a field. Longer ones, such as huge messages, are truncated. */
const FIELD_BYTES_MAX = 64 * 1024
const PLAIN_OUTPUT = ['--no-color', '--no-decorate', '--no-notes', '--no-show-signature', '--no-mailmap', '--no-patch']

/** Lists the history of `revisions`, newest first. `selection`: the options of git that select its commits. */
async function* listCommits(
  location: GitLocation,
  revisions: readonly string[],
  { signal, selection = ['--first-parent'] }: { signal: AbortSignal; selection?: readonly string[] },
): AsyncGenerator<Commit, void, undefined> {
  const args = ['log', '-z', ...PLAIN_OUTPUT, ...selection, FORMAT, '--stdin']
  const stream = streamGit(location, args, { signal, input: revisions.map((revision) => `${revision}\n`) })
  let fields: string[] = []
  for await (const field of splitStream(stream, NUL, FIELD_BYTES_MAX)) {
    fields.push(field)
    if (fields.length < FIELDS.length) continue
    yield toCommit(fields)
    fields = []
  }
}

function toCommit([
  id = '',
  parents = '',
  name = '',
  email = '',
  authored,
  committed,
  subject = '',
  body = '',
]: string[]): Commit {
  return {
    id,
    parents: parents === '' ? [] : parents.split(' '),
    authorName: decodeUtf8(name),
    authorEmail: decodeUtf8(email),
    authoredAt: Number(authored),
    committedAt: parseSeconds(committed),
    subject: decodeUtf8(subject).trim(),
    body: decodeUtf8(body),
  }
}

type RecognisedCommit = { number: number; title: string; body: string; mark: Mark; branch?: string | undefined }

type RecogniseRule = (commit: Commit) => RecognisedCommit | undefined

/** Recognises a pull request by the message of one commit. The first matching rule decides. */
export function recognisePullRequest(commit: Commit): RecognisedCommit | undefined {
  for (const rule of RECOGNISE_RULES) {
    const found = rule(commit)
    if (found) return found
  }
  return undefined
}

const isMerge = ({ parents }: Commit): boolean => parents.length > 1

/** Matches `Merge pull request #12 from fork/branch`, also without `#`. The title is the first line of the body. */
const mergedOnGithub: RecogniseRule = (commit) => {
  const found = /^Merge pull request #?(\d{1,9}) from (\S+)/.exec(commit.subject)
  if (!found || !isMerge(commit)) return undefined
  const branch = found[2]?.replace(/^[^/]+\//, '')
  return { ...splitBody(commit, branch ?? ''), number: Number(found[1]), mark: 'merge', branch }
}

/** Matches `Title (#12)`, a squash, or with two parents a merge commit. */
const numberAtTheEnd: RecogniseRule = (commit) => {
  const found = /^(.*\S)?\s*\(#(\d{1,9})\)$/.exec(commit.subject)
  if (!found) return undefined
  const mark = isMerge(commit) ? 'merge-title' : 'squash'
  return { number: Number(found[2]), title: found[1] ?? '', body: commit.body, mark }
}

/** Matches bors and merge queues: `Merge #12`, `Auto merge of #12 - name:branch, r=reviewer`. Rollups do not match. */
const mergedByQueue: RecogniseRule = (commit) => {
  const found = /^(?:Merge|Auto merge of) #(\d{1,9})(?!.*#\d)/.exec(commit.subject)
  if (!found || !isMerge(commit)) return undefined
  return { ...splitBody(commit, commit.subject), number: Number(found[1]), mark: 'merge' }
}

/** Matches GitLab, which names the merge request at the end of the message. */
const mergedOnGitlab: RecogniseRule = (commit) => {
  const found = /^See merge request \S*!(\d{1,9})$/m.exec(commit.body)
  if (!found) return undefined
  const branch = /^Merge branch '([^']+)'/.exec(commit.subject)?.[1]
  const text = branch === undefined ? { title: commit.subject, body: commit.body } : splitBody(commit, branch)
  return { ...text, number: Number(found[1]), mark: isMerge(commit) ? 'merge' : 'squash', branch }
}

/** Matches `Merged PR 12: Title` (Azure) and `Merged in branch (pull request #12)` (Bitbucket). */
const mergedElsewhere: RecogniseRule = (commit) => {
  const azure = /^Merged PR (\d{1,9}): (.+)$/.exec(commit.subject)
  const mark = isMerge(commit) ? 'merge' : 'squash'
  if (azure) return { number: Number(azure[1]), title: azure[2] ?? '', body: commit.body, mark }
  const bitbucket = /^Merged in (\S+) \(pull request #(\d{1,9})\)$/.exec(commit.subject)
  if (!bitbucket) return undefined
  return { ...splitBody(commit, bitbucket[1] ?? ''), number: Number(bitbucket[2]), mark, branch: bitbucket[1] }
}

const TRAILER =
  /^(?:PR-URL|Pull-Request|Reviewed-on|Reviewed-at|Merge-Request|Differential Revision):\s*(?:\S*[/#!D])?(\d{1,9})\/?$/im

/** Matches trailers of Gerrit mirrors and patch queues: `PR-URL: …/pull/12`, `Reviewed-on: …/+/12`. */
const namedInTrailer: RecogniseRule = (commit) => {
  const number = TRAILER.exec(commit.body)?.[1]
  return number === undefined
    ? undefined
    : { number: Number(number), title: commit.subject, body: commit.body, mark: 'trailer' }
}

const RECOGNISE_RULES: RecogniseRule[] = [
  mergedOnGithub,
  numberAtTheEnd,
  mergedByQueue,
  mergedOnGitlab,
  mergedElsewhere,
  namedInTrailer,
]

/** Recognises `Closes #12` on a line of its own, which remains when a pull request is squashed by hand. */
function fromClosing(commit: Commit): LandedPullRequest | undefined {
  const number = /^closes:? #(\d{1,9})\.?$/im.exec(commit.body)?.[1]
  if (number === undefined || commit.parents.length !== 1) return undefined
  return fromCommit(commit, { number: Number(number), title: commit.subject, body: commit.body, mark: 'trailer' })
}

/** Returns title and body of a merge commit, whose title is the first line of its body. */
function splitBody({ body }: Commit, fallbackTitle: string): { title: string; body: string } {
  const [first = '', ...rest] = body.trimStart().split('\n')
  const title = first.trim()
  return title === '' || title.startsWith('See merge request')
    ? { title: fallbackTitle, body }
    : { title, body: rest.join('\n').trim() }
}

/** A commit with its message. */
export type Commit = {
  id: string
  parents: readonly string[]
  authorName: string
  authorEmail: string
  /** In seconds since 1970, like `committedAt`. */
  authoredAt: number
  committedAt: number
  subject: string
  body: string
}

/** Returns the properties of a commit that a rebase preserves. */
const toTrace = ({ authorEmail, authoredAt, subject }: Commit): string => `${authorEmail}\n${authoredAt}\n${subject}`

/** Reverted commits, collected while history is read newest first, so that a revert comes before the commit that it reverts. */
type Reverts = { commits: Set<string>; titles: Set<string> }

export const createReverts = (): Reverts => ({ commits: new Set(), titles: new Set() })

type RevertCandidate = { id: string; titles: readonly string[]; body: string }

/** Reports whether a newer commit reverted this one. If not, remembers the commits that this one reverts. */
export function checkReverted(reverts: Reverts, { id, titles, body }: RevertCandidate): boolean {
  const titlesWithoutNumber = titles.map(stripNumber)
  // A revert applies to a single commit of that title.
  const isReverted = reverts.commits.has(id) || titlesWithoutNumber.some((title) => reverts.titles.delete(title))
  if (!isReverted) rememberReverts(reverts, titlesWithoutNumber, body)
  return isReverted
}

function rememberReverts(reverts: Reverts, titles: readonly string[], body: string): void {
  const quoted = titles.map((title) => /^Revert:? "(.+)"$/i.exec(title)?.[1]).find((title) => title !== undefined)
  const ids = [...body.matchAll(/This reverts commit ([0-9a-f]{40,64})/g)].map(([, id = '']) => id)
  for (const id of ids) reverts.commits.add(id)
  // The title is only a fallback if there is no id.
  if (quoted !== undefined && ids.length === 0) reverts.titles.add(stripNumber(quoted))
}

/** Removes a trailing number such as `(#12)`. Takes linear time even for titles with many spaces. */
const stripNumber = (title: string): string => title.replace(/(?<!\s)\s*\(#\d+\)$/, '').trim()
