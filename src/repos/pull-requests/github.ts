import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../platform/jobs/backoff.ts'
import { CodeHostUnavailable, type HostAccess } from '../code-host.ts'
import { GITHUB, type GithubDeps, isRateLimited, readRetryAfter, sendGithubRequest } from '../github-request.ts'
import { GithubPage, QUERY, toPullRequest } from './github-page.ts'
import type { PullRequests } from './pull-request.ts'
import { checkReverted, createReverts } from './reverts.ts'

const PAGE_MAX = 50
const PAGE_MIN = 5
const BYTES_MAX = 32 * 1024 * 1024
const TIMEOUT_MS = 60_000
const TRIES_MAX = 4
/** Longer waits are not waited for: the error, with the requested wait, is returned to the caller. */
const WAIT_MAX_SECONDS = 120
/** Bounds the waits if the host keeps requesting short ones. */
const WAITS_MAX = 30
/** Rate limit points that are left for other users of the token. */
const RESERVED_POINTS = 50

type PauseFn = (ms: number, signal: AbortSignal) => Promise<void>

export type GithubPullRequestDeps = GithubDeps & { pause?: PauseFn }

/** Lists pull requests with GitHub's API. Throws CodeHostUnavailable, with the requested wait if there is one. */
export const createGithubPullRequests = (
  deps: GithubPullRequestDeps,
  place: { owner: string; name: string },
  access: HostAccess,
): PullRequests => ({
  async *list(signal) {
    const reverts = createReverts()
    for await (const page of listPages(deps, place, access, signal)) {
      for (const node of page) {
        const landed = toPullRequest(node)
        if (!landed) continue
        const isReverted = checkReverted(reverts, { id: landed.head, titles: [landed.title], body: node.body ?? '' })
        yield { ...landed, isReverted }
      }
    }
  },
})

type Nodes = NonNullable<NonNullable<NonNullable<GithubPage['data']>['repository']>>['pullRequests']['nodes']

async function* listPages(
  deps: GithubPullRequestDeps,
  place: { owner: string; name: string },
  access: HostAccess,
  signal: AbortSignal,
): AsyncGenerator<Nodes> {
  let after: string | null = null
  do {
    const { data }: GithubPage = await readPage(deps, access, { ...place, after }, signal)
    const list: { pageInfo: { hasNextPage: boolean; endCursor: string | null }; nodes: Nodes } | undefined =
      data?.repository?.pullRequests
    if (!list) throw new CodeHostUnavailable(`${access.host} did not return the pull requests of this repository.`)
    yield list.nodes
    after = list.pageInfo.hasNextPage ? list.pageInfo.endCursor : null
    if (after !== null) await waitForPoints(deps, data?.rateLimit, signal)
  } while (after !== null)
}

type PageVariables = { owner: string; name: string; after: string | null }

/** Reads a page. A wait that GitHub requests is not a failed attempt. After a failure the page size is halved. */
async function readPage(
  deps: GithubPullRequestDeps,
  access: HostAccess,
  variables: PageVariables,
  signal: AbortSignal,
): Promise<GithubPage> {
  let first = PAGE_MAX
  let failures = 0
  for (let waits = 0; ; waits += 1) {
    const body = JSON.stringify({ query: QUERY, variables: { ...variables, first } })
    const answer = await requestPage(deps, access, body, signal)
    if (answer.kind === 'page') return answer.page
    const isFailure = answer.waitSeconds === undefined
    failures += isFailure ? 1 : 0
    if (failures === TRIES_MAX || waits === WAITS_MAX || isLongWait(answer)) throw toUnavailable(answer)
    if (isFailure) first = Math.max(PAGE_MIN, Math.ceil(first / 2))
    await getPause(deps)(pauseMs(answer, failures), signal)
  }
}

type RetryLater = { kind: 'again'; waitSeconds: number | undefined; detail: string }

const isLongWait = ({ waitSeconds = 0 }: RetryLater): boolean => waitSeconds > WAIT_MAX_SECONDS

const toUnavailable = ({ detail, waitSeconds }: RetryLater) => new CodeHostUnavailable(detail, waitSeconds)

const pauseMs = ({ waitSeconds }: RetryLater, failures: number): number =>
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
  if (status === 200) return parsePage(await response.json().catch(() => undefined), headers)
  await response.body?.cancel()
  const isForNow = isRateLimited(headers)
  if ([401, 403, 404].includes(status) && !isForNow) {
    throw new CodeHostUnavailable(`${access.host} refused the credential (${status}).`)
  }
  return {
    kind: 'again',
    waitSeconds: isForNow ? readRetryAfter(headers) : undefined,
    detail: `${access.host} answered ${status}.`,
  }
}

function parsePage(body: unknown, headers: Headers): PageAnswer {
  const read = GithubPage.safeParse(body)
  if (!read.success) return { kind: 'again', waitSeconds: undefined, detail: 'The code host sent an invalid response.' }
  const [error] = read.data.errors ?? []
  if (!error) return { kind: 'page', page: read.data }
  if (error.type === 'NOT_FOUND' || error.type === 'FORBIDDEN') {
    throw new CodeHostUnavailable('The repository does not exist, or the credential has no access to it.')
  }
  const waitSeconds = error.type === 'RATE_LIMITED' ? (readRetryAfter(headers) ?? WAIT_MAX_SECONDS + 1) : undefined
  return { kind: 'again', waitSeconds, detail: `The code host reported an error (${error.type ?? 'unknown'}).` }
}

/** Waits for the rate limit to reset before the reserved points are used. */
async function waitForPoints(
  deps: GithubPullRequestDeps,
  limit: NonNullable<GithubPage['data']>['rateLimit'],
  signal: AbortSignal,
): Promise<void> {
  if (!limit || limit.remaining > RESERVED_POINTS) return
  const seconds = Math.ceil((Date.parse(limit.resetAt) - Date.now()) / 1000)
  if (!(seconds > 0)) return
  if (seconds > WAIT_MAX_SECONDS)
    throw new CodeHostUnavailable('The rate limit of the code host is exhausted.', seconds)
  await getPause(deps)(seconds * 1000, signal)
}

const getPause = ({ pause }: GithubPullRequestDeps): PauseFn =>
  pause ?? (async (ms, signal) => void (await sleep(ms, undefined, { signal })))

const toGraphqlUrl = ({ baseUrl }: GithubDeps, { host }: HostAccess): string =>
  host === GITHUB ? `${baseUrl ?? 'https://api.github.com'}/graphql` : `https://${host}/api/graphql`
