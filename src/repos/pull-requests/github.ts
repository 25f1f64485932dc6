import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../platform/jobs/backoff.ts'
import { CodeHostUnavailable, type HostAccess } from '../code-host.ts'
import { askGithub, GITHUB, type GithubTools, isLimit, waitOf } from '../github-request.ts'
import { Page, pullRequestOf, QUERY } from './github-page.ts'
import type { PullRequests } from './pull-request.ts'
import { isTakenBack, newReverts } from './reverts.ts'

const PAGE_MAX = 50
const PAGE_MIN = 5
const BYTES_MAX = 32 * 1024 * 1024
const TIMEOUT_MS = 60_000
const TRIES_MAX = 4
/** Whoever asks for more has us come back another time: the caller is told how long. */
const WAIT_MAX_SECONDS = 120
/** A host that always asks for a little more. */
const WAITS_MAX = 30
/** Points that are left to others who use the same token. */
const POINTS_LEFT = 50

type Pause = (ms: number, signal: AbortSignal) => Promise<void>

export type GithubPullRequestTools = GithubTools & { pause?: Pause }

/** Pull requests as GitHub tells them. Throws CodeHostUnavailable, with how long to wait where it says so. */
export const githubPullRequests = (
  tools: GithubPullRequestTools,
  place: { owner: string; name: string },
  access: HostAccess,
): PullRequests => ({
  async *list(signal) {
    const reverts = newReverts()
    for await (const page of pages(tools, place, access, signal)) {
      for (const node of page) {
        const landed = pullRequestOf(node)
        if (!landed) continue
        const isReverted = isTakenBack(reverts, { id: landed.head, titles: [landed.title], body: node.body ?? '' })
        yield { ...landed, isReverted }
      }
    }
  },
})

type Nodes = NonNullable<NonNullable<NonNullable<Page['data']>['repository']>>['pullRequests']['nodes']

async function* pages(
  tools: GithubPullRequestTools,
  place: { owner: string; name: string },
  access: HostAccess,
  signal: AbortSignal,
): AsyncGenerator<Nodes> {
  let after: string | null = null
  do {
    const { data }: Page = await readPage(tools, access, { ...place, after }, signal)
    const list: { pageInfo: { hasNextPage: boolean; endCursor: string | null }; nodes: Nodes } | undefined =
      data?.repository?.pullRequests
    if (!list) throw new CodeHostUnavailable(`${access.host} shows no pull requests of this repository.`)
    yield list.nodes
    after = list.pageInfo.hasNextPage ? list.pageInfo.endCursor : null
    if (after !== null) await spare(tools, data?.rateLimit, signal)
  } while (after !== null)
}

type Variables = { owner: string; name: string; after: string | null }

/** A wait that GitHub asks for is no failed try. A page that is too much for it is asked for again, smaller. */
async function readPage(
  tools: GithubPullRequestTools,
  access: HostAccess,
  variables: Variables,
  signal: AbortSignal,
): Promise<Page> {
  let first = PAGE_MAX
  let failures = 0
  for (let waits = 0; ; waits += 1) {
    const body = JSON.stringify({ query: QUERY, variables: { ...variables, first } })
    const answer = await askOnce(tools, access, body, signal)
    if (answer.kind === 'page') return answer.page
    const isFailure = answer.waitSeconds === undefined
    failures += isFailure ? 1 : 0
    if (failures === TRIES_MAX || waits === WAITS_MAX || isLong(answer)) throw later(answer)
    if (isFailure) first = Math.max(PAGE_MIN, Math.ceil(first / 2))
    await pauseOf(tools)(pauseMs(answer, failures), signal)
  }
}

type Again = { kind: 'again'; waitSeconds: number | undefined; detail: string }

const isLong = ({ waitSeconds = 0 }: Again): boolean => waitSeconds > WAIT_MAX_SECONDS

const later = ({ detail, waitSeconds }: Again) => new CodeHostUnavailable(detail, waitSeconds)

const pauseMs = ({ waitSeconds }: Again, failures: number): number =>
  waitSeconds === undefined ? backoffMs(failures, Math.random()) : waitSeconds * 1000

type Answer = { kind: 'page'; page: Page } | Again

async function askOnce(
  tools: GithubPullRequestTools,
  access: HostAccess,
  body: string,
  signal: AbortSignal,
): Promise<Answer> {
  const limits = { bytesMax: BYTES_MAX, timeoutMs: TIMEOUT_MS, signal }
  const response = await askGithub(tools, addressOf(tools, access), access, { body, ...limits })
  const { status, headers } = response
  if (status === 200) return pageOf(await response.json().catch(() => undefined), headers)
  await response.body?.cancel()
  const isForNow = isLimit(headers)
  if ([401, 403, 404].includes(status) && !isForNow) {
    throw new CodeHostUnavailable(`${access.host} refused the credential (${status}).`)
  }
  return {
    kind: 'again',
    waitSeconds: isForNow ? waitOf(headers) : undefined,
    detail: `${access.host} answered ${status}.`,
  }
}

function pageOf(body: unknown, headers: Headers): Answer {
  const read = Page.safeParse(body)
  if (!read.success) return { kind: 'again', waitSeconds: undefined, detail: 'The code host answered no page.' }
  const [error] = read.data.errors ?? []
  if (!error) return { kind: 'page', page: read.data }
  if (error.type === 'NOT_FOUND' || error.type === 'FORBIDDEN') {
    throw new CodeHostUnavailable('The code host shows no such repository to this credential.')
  }
  const waitSeconds = error.type === 'RATE_LIMITED' ? (waitOf(headers) ?? WAIT_MAX_SECONDS + 1) : undefined
  return { kind: 'again', waitSeconds, detail: `The code host could not answer (${error.type ?? 'error'}).` }
}

/** Before the last points are spent, wait for new ones. */
async function spare(
  tools: GithubPullRequestTools,
  limit: NonNullable<Page['data']>['rateLimit'],
  signal: AbortSignal,
): Promise<void> {
  if (!limit || limit.remaining > POINTS_LEFT) return
  const seconds = Math.ceil((Date.parse(limit.resetAt) - Date.now()) / 1000)
  if (!(seconds > 0)) return
  if (seconds > WAIT_MAX_SECONDS) throw new CodeHostUnavailable('The quota of the code host is used up.', seconds)
  await pauseOf(tools)(seconds * 1000, signal)
}

const pauseOf = ({ pause }: GithubPullRequestTools): Pause =>
  pause ?? (async (ms, signal) => void (await sleep(ms, undefined, { signal })))

const addressOf = ({ baseUrl }: GithubTools, { host }: HostAccess): string =>
  host === GITHUB ? `${baseUrl ?? 'https://api.github.com'}/graphql` : `https://${host}/api/graphql`
