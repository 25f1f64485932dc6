import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { backoffMs } from '../../platform/retry-delay.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import {
  CodeHostUnavailable,
  GITHUB,
  type GithubDeps,
  type HostAccess,
  isRateLimited,
  readRetryAfterSeconds,
  sendGithubRequest,
} from '../github.ts'
import { checkReverted, createReverts } from './git-history.ts'
import type { IssueText, PullRequest, PullRequests } from './pull-request.ts'

/** Numbers of pull requests on a page. After failures pages get smaller, down to the minimum. */
const PAGE_SIZE_MAX = 50
const PAGE_SIZE_MIN = 5
const BYTES_MAX = 16 * 1024 * 1024
/** Bounds the list of a host that never ends it. */
const PAGES_MAX = 4000
const LIST_TIMEOUT_MS = 1_800_000
/** Maximum lengths of texts. Longer ones are cut: titles are remembered while the list is read. */
const TITLE_LENGTH_MAX = 1000
const BODY_LENGTH_MAX = 64 * 1024
const TIMEOUT_MS = 60_000
const FAILURES_MAX = 4
/** Maximum wait. If GitHub requests a longer one, the caller gets an error with the requested wait. */
const WAIT_MAX_SECONDS = 120
/** Bounds the waits if the host keeps requesting short ones. */
const WAITS_MAX = 30
/** Rate limit points that are left for other users of the token. */
const RESERVED_POINTS = 50

type GithubPullRequestDeps = GithubDeps & {
  pause?: (ms: number, signal: AbortSignal) => Promise<void>
  pagesMax?: number
}

/** Lists pull requests with GitHub's API. Throws CodeHostUnavailable, with the requested wait if there is one. */
export const createGithubPullRequests = (
  deps: GithubPullRequestDeps,
  repository: { owner: string; name: string },
  access: HostAccess,
): PullRequests => ({
  async *list(signal) {
    const reverts = createReverts()
    for await (const page of listPages(deps, repository, access, signal)) {
      for (const node of page) {
        const landed = toPullRequest(node)
        if (!landed) continue
        const isReverted = checkReverted(reverts, { id: landed.head, titles: [landed.title], body: node.body ?? '' })
        yield { ...landed, isReverted }
      }
    }
  },
})

async function* listPages(
  deps: GithubPullRequestDeps,
  repository: { owner: string; name: string },
  access: HostAccess,
  signal: AbortSignal,
): AsyncGenerator<Node[]> {
  let after: string | null = null
  const countPage = createPageCounter(deps.pagesMax ?? PAGES_MAX, access)
  do {
    countPage()
    const { data }: GithubPage = await readPage(deps, access, { ...repository, after }, signal)
    const list: { pageInfo: { hasNextPage: boolean; endCursor: string | null }; nodes: Node[] } | undefined =
      data?.repository?.pullRequests
    if (!list) throw new CodeHostUnavailable(`${access.host} did not return the pull requests of this repository.`)
    yield list.nodes
    after = list.pageInfo.hasNextPage ? list.pageInfo.endCursor : null
    if (after !== null) await waitForPoints(deps, data?.rateLimit, signal)
  } while (after !== null)
}

/** Returns a function that throws when a list has too many pages or takes too long. */
function createPageCounter(pagesMax: number, { host }: HostAccess): () => void {
  let pages = 0
  const deadline = Date.now() + LIST_TIMEOUT_MS
  return () => {
    pages += 1
    if (pages > pagesMax || Date.now() > deadline)
      throw new CodeHostUnavailable(`${host} did not end the list of pull requests.`)
  }
}

type PageVariables = { owner: string; name: string; after: string | null }

/** Reads a page. A wait that GitHub requests is not a failed attempt. After a failure the page size is halved. */
async function readPage(
  deps: GithubPullRequestDeps,
  access: HostAccess,
  variables: PageVariables,
  signal: AbortSignal,
): Promise<GithubPage> {
  let pageSize = PAGE_SIZE_MAX
  let failures = 0
  for (let waits = 0; ; waits += 1) {
    const body = JSON.stringify({ query: QUERY, variables: { ...variables, first: pageSize } })
    const answer = await requestPage(deps, access, body, signal)
    if (answer.kind === 'page') return answer.page
    const isFailure = answer.waitSeconds === undefined
    if (isFailure) failures += 1
    if (failures === FAILURES_MAX || waits === WAITS_MAX || isLongWait(answer)) throw toUnavailable(answer)
    if (isFailure) pageSize = Math.max(PAGE_SIZE_MIN, Math.ceil(pageSize / 2))
    await pause(deps, computePauseMs(answer, failures), signal)
  }
}

/** A page that could not be read. `waitSeconds` is the wait that GitHub requests, if it requests one. */
type RetryLater = { kind: 'retry'; waitSeconds: number | undefined; detail: string }

const isLongWait = ({ waitSeconds = 0 }: RetryLater): boolean => waitSeconds > WAIT_MAX_SECONDS

const toUnavailable = ({ detail, waitSeconds }: RetryLater) => new CodeHostUnavailable(detail, waitSeconds)

const computePauseMs = ({ waitSeconds }: RetryLater, failures: number): number =>
  waitSeconds === undefined ? backoffMs(failures, Math.random()) : waitSeconds * 1000

type PageAnswer = { kind: 'page'; page: GithubPage } | RetryLater

async function requestPage(
  deps: GithubPullRequestDeps,
  access: HostAccess,
  body: string,
  signal: AbortSignal,
): Promise<PageAnswer> {
  const limits = { bytesMax: BYTES_MAX, timeoutMs: TIMEOUT_MS, signal }
  const response = await sendGithubRequest(deps, toGraphqlUrl(deps, access), access, { body, ...limits })
  const { status, headers } = response
  if (status === 200) return parsePage(parseUntrustedJson(await response.text().catch(() => '')), headers)
  await response.body?.cancel()
  const isLimited = isRateLimited(headers)
  if ([401, 403, 404].includes(status) && !isLimited) {
    throw new CodeHostUnavailable(`${access.host} refused the credential (${status}).`)
  }
  return {
    kind: 'retry',
    waitSeconds: isLimited ? readRetryAfterSeconds(headers) : undefined,
    detail: `${access.host} answered ${status}.`,
  }
}

function parsePage(body: unknown, headers: Headers): PageAnswer {
  const parsed = GithubPage.safeParse(body)
  if (!parsed.success)
    return { kind: 'retry', waitSeconds: undefined, detail: 'The code host sent an invalid response.' }
  const [error] = parsed.data.errors ?? []
  if (!error) return { kind: 'page', page: parsed.data }
  if (error.type === 'NOT_FOUND' || error.type === 'FORBIDDEN') {
    throw new CodeHostUnavailable('The repository does not exist, or the credential has no access to it.')
  }
  // If GitHub requests no pause, a wait above the maximum makes the caller fail.
  const waitSeconds =
    error.type === 'RATE_LIMITED' ? (readRetryAfterSeconds(headers) ?? WAIT_MAX_SECONDS + 1) : undefined
  return { kind: 'retry', waitSeconds, detail: `The code host reported an error (${error.type ?? 'unknown'}).` }
}

/** Waits for the rate limit to reset before the reserved points are used. */
async function waitForPoints(
  deps: GithubPullRequestDeps,
  limit: NonNullable<GithubPage['data']>['rateLimit'],
  signal: AbortSignal,
): Promise<void> {
  if (!limit || limit.remaining > RESERVED_POINTS) return
  const seconds = Math.ceil((Date.parse(limit.resetAt) - Date.now()) / 1000)
  // The time may be invalid, which makes the seconds NaN.
  if (!(seconds > 0)) return
  if (seconds > WAIT_MAX_SECONDS)
    throw new CodeHostUnavailable('The rate limit of the code host is exhausted.', seconds)
  await pause(deps, seconds * 1000, signal)
}

/** Waits, or calls the function that tests use instead. */
async function pause({ pause: testPause }: GithubPullRequestDeps, ms: number, signal: AbortSignal): Promise<void> {
  if (testPause) return testPause(ms, signal)
  await sleep(ms, undefined, { signal })
}

const toGraphqlUrl = ({ baseUrl }: GithubDeps, { host }: HostAccess): string =>
  host === GITHUB ? `${baseUrl ?? 'https://api.github.com'}/graphql` : `https://${host}/api/graphql`

/** Queries a page of pull requests at once. The REST API would need five requests for each. Diffs always come from git. */
const QUERY = `query($owner: String!, $name: String!, $first: Int!, $after: String) {
  rateLimit { remaining resetAt }
  repository(owner: $owner, name: $name) {
    pullRequests(states: MERGED, first: $first, after: $after, orderBy: {field: CREATED_AT, direction: DESC}) {
      pageInfo { hasNextPage endCursor }
      nodes {
        number title body createdAt lastEditedAt mergedAt baseRefName headRefName
        author { login __typename }
        mergeCommit { oid messageHeadline parents(first: 2) { nodes { oid } } }
        commits(last: 1) { totalCount nodes { commit { messageHeadline } } }
        repository { id }
        closingIssuesReferences(first: 3) { totalCount nodes { title body lastEditedAt repository { id } } }
      }
    }
  }
}`

const Repository = z.object({ id: z.string() }).nullish()
const time = z.iso.datetime({ offset: true })
const cutString = (max: number) => z.string().transform((text) => text.slice(0, max))
const title = cutString(TITLE_LENGTH_MAX)
const body = cutString(BODY_LENGTH_MAX).nullable()

const Issue = z.object({
  title,
  body,
  lastEditedAt: time.nullish(),
  repository: Repository,
})

const Node = z.object({
  number: z.number().int().positive(),
  title,
  body,
  createdAt: time,
  lastEditedAt: time.nullish(),
  mergedAt: time,
  baseRefName: z.string(),
  headRefName: z.string().nullish(),
  author: z.object({ login: z.string(), __typename: z.string() }).nullable(),
  mergeCommit: z
    .object({
      oid: z.string().regex(/^[0-9a-f]{40,64}$/),
      messageHeadline: title,
      parents: z.object({ nodes: z.array(z.object({ oid: z.string().regex(/^[0-9a-f]{40,64}$/) })) }),
    })
    .nullable(),
  commits: z.object({
    totalCount: z.number().int().nonnegative(),
    nodes: z.array(z.object({ commit: z.object({ messageHeadline: title }) })),
  }),
  repository: Repository,
  closingIssuesReferences: z
    .object({ totalCount: z.number().int().nonnegative(), nodes: z.array(Issue.nullable()).nullish() })
    .nullish(),
})
type Node = z.infer<typeof Node>

const GithubPage = z.object({
  data: z
    .object({
      rateLimit: z.object({ remaining: z.number(), resetAt: z.string() }).nullish(),
      repository: z
        .object({
          pullRequests: z.object({
            pageInfo: z.object({ hasNextPage: z.boolean(), endCursor: z.string().nullable() }),
            nodes: z.array(Node),
          }),
        })
        .nullable(),
    })
    .nullish(),
  errors: z.array(z.object({ type: z.string().optional(), message: z.string() })).optional(),
})
type GithubPage = z.infer<typeof GithubPage>

/** Converts a node. Returns undefined if the merge commit is missing. */
function toPullRequest(node: Node): Omit<PullRequest, 'isReverted'> | undefined {
  const { mergeCommit, author } = node
  if (!mergeCommit) return undefined
  return {
    number: node.number,
    title: node.title,
    body: readBody(node, node.mergedAt),
    mark: 'code-host',
    author: author?.login ?? 'ghost',
    isBot: author === null ? undefined : author.__typename === 'Bot',
    branch: node.headRefName ?? undefined,
    into: node.baseRefName,
    mergedAt: new Date(node.mergedAt),
    head: mergeCommit.oid,
    base: toBase(node, mergeCommit),
    issues: node.closingIssuesReferences?.totalCount,
    issueTexts: listIssueTexts(node),
  }
}

type EditableText = { body: string | null; lastEditedAt?: string | null | undefined }

/**
 * Returns the body unless it was edited after `until`: an edit may reveal the solution, and the original is unknown.
 */
const readBody = ({ body, lastEditedAt }: EditableText, until: string): string =>
  lastEditedAt && Date.parse(lastEditedAt) > Date.parse(until) ? '' : (body ?? '')

/** Returns issue texts from before the pull request. Issues of other repositories are omitted: they may be private. */
function listIssueTexts({ repository, closingIssuesReferences, createdAt }: Node): IssueText[] {
  const all = closingIssuesReferences?.nodes ?? []
  const sameRepository = all
    .filter((issue) => issue !== null)
    .filter((issue) => issue.repository?.id === repository?.id)
  return repository ? sameRepository.map((issue) => ({ title: issue.title, body: readBody(issue, createdAt) })) : []
}

/** Returns the commit before the pull request. A rebase lands every commit, and the last one keeps its subject. */
function toBase(
  { commits, number }: Node,
  { oid, messageHeadline, parents }: NonNullable<Node['mergeCommit']>,
): string {
  const isRebase =
    parents.nodes.length === 1 &&
    commits.nodes[0]?.commit.messageHeadline === messageHeadline &&
    !messageHeadline.endsWith(`(#${number})`)
  if (isRebase && commits.totalCount > 1) return `${oid}~${commits.totalCount}`
  return parents.nodes[0]?.oid ?? `${oid}~1`
}
