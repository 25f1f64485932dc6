import { z } from 'zod'
import { type Outbound, OutboundFailed, type OutboundInit, OutboundRefused } from '../platform/outbound/outbound.ts'
import { parseUntrustedJson } from '../platform/untrusted-json.ts'

/** Host and credential for requests to a code host. The token must only be sent to this host. */
export type HostAccess = { host: string; token: string | undefined }

/** A repository as reported by the code host, in its casing. */
export type HostedRepository = { id: number; owner: string; name: string; visibility: 'public' | 'private' }

type RepositoryLookup =
  | { kind: 'found'; repository: HostedRepository }
  /** The repository does not exist, or the token has no access to it. */
  | { kind: 'unknown' }
  /** The host rejected the token. */
  | { kind: 'refused'; detail: string }

/** A service that hosts repositories. */
export type CodeHost = {
  /** Looks up a repository. Follows renames: the result has the current name. Throws CodeHostUnavailable. */
  findRepository(repository: { owner: string; name: string }, access: HostAccess): Promise<RepositoryLookup>
}

/** Thrown when a code host cannot be reached or answers unexpectedly. Says nothing about the repository. */
export class CodeHostUnavailable extends Error {
  override name = 'CodeHostUnavailable'
  /** Pause that the host requested. */
  readonly retryAfterSeconds: number | undefined

  constructor(message: string, retryAfterSeconds?: number) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export const GITHUB = 'github.com'

export type GithubDeps = { outbound: Outbound; baseUrl: string | undefined }

type GithubRequestOptions = { body?: string; bytesMax: number; timeoutMs: number; signal?: AbortSignal }

/** Sends a request to GitHub's API through the outbound guard. Returns redirects. Throws CodeHostUnavailable. */
export async function sendGithubRequest(
  { outbound }: GithubDeps,
  url: string,
  { host, token }: HostAccess,
  { body, signal, ...limits }: GithubRequestOptions,
): Promise<Response> {
  const headers: Record<string, string> = {
    accept: 'application/vnd.github+json',
    'user-agent': 'assay',
    'x-github-api-version': '2022-11-28',
  }
  if (token !== undefined) headers.authorization = `Bearer ${token}`
  const init: OutboundInit = { headers, trust: host === GITHUB ? 'operator' : 'client', redirect: 'manual', ...limits }
  if (body !== undefined) Object.assign(init, { method: 'POST', body })
  if (signal !== undefined) init.signal = signal
  try {
    return await outbound.fetch(url, init)
  } catch (error) {
    if (!(error instanceof OutboundFailed || error instanceof OutboundRefused)) throw error
    throw new CodeHostUnavailable(`${host} cannot be reached (${error.reason}).`)
  }
}

export const isRateLimited = (headers: Headers): boolean =>
  headers.has('retry-after') || headers.get('x-ratelimit-remaining') === '0'

const WAIT_MAX_SECONDS = 3600

/** Returns the requested pause in seconds, from Retry-After or the reset time of the rate limit. */
export function readRetryAfterSeconds(headers: Headers): number | undefined {
  const retryAfter = Number(headers.get('retry-after') ?? Number.NaN)
  const untilReset = Number(headers.get('x-ratelimit-reset') ?? 0) - Date.now() / 1000
  const seconds = Number.isFinite(retryAfter) ? retryAfter : untilReset
  return seconds > 0 ? Math.ceil(Math.min(seconds, WAIT_MAX_SECONDS)) : undefined
}

/** Limits of one request for a repository. */
const TIMEOUT_MS = 15_000
const BYTES_MAX = 1024 * 1024

const RepositoryResponse = z.object({
  id: z.number().int().positive(),
  name: z.string().min(1),
  owner: z.object({ login: z.string().min(1) }),
  private: z.boolean(),
  visibility: z.string().optional(),
})

/** Creates a code host that uses GitHub's REST API. */
export const createGithubHost = (deps: GithubDeps): CodeHost => ({
  async findRepository({ owner, name }, access) {
    const base = toBaseUrl(deps, access)
    const first = await send(deps, `${base}/repos/${owner}/${name}`, access)
    const response = await followRename(deps, base, first, access)
    return response.status === 200 ? parseRepository(response) : toRefusal(response)
  },
})

const toBaseUrl = ({ baseUrl }: GithubDeps, { host }: HostAccess): string =>
  host === GITHUB ? (baseUrl ?? 'https://api.github.com') : `https://${host}/api/v3`

const send = (deps: GithubDeps, url: string, access: HostAccess): Promise<Response> =>
  sendGithubRequest(deps, url, access, { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX })

const REDIRECT_STATUSES = [301, 302, 307, 308]

/** Follows the redirect of a renamed repository, but only on the same host, because the request carries the token. */
async function followRename(deps: GithubDeps, base: string, response: Response, access: HostAccess): Promise<Response> {
  if (!REDIRECT_STATUSES.includes(response.status)) return response
  await response.body?.cancel()
  const target = URL.parse(response.headers.get('location') ?? '', base)
  if (target?.origin !== new URL(base).origin)
    throw new CodeHostUnavailable(`${access.host} redirected to another host.`)
  return send(deps, target.href, access)
}

async function parseRepository(response: Response): Promise<RepositoryLookup> {
  const body = RepositoryResponse.safeParse(parseUntrustedJson(await response.text().catch(() => '')))
  if (!body.success) throw new CodeHostUnavailable('The code host sent an invalid response.')
  const { id, name, owner, private: isPrivate, visibility } = body.data
  // Repositories that are internal to an enterprise are not public.
  const isPublic = !isPrivate && (visibility ?? 'public') === 'public'
  return {
    kind: 'found',
    repository: { id, owner: owner.login, name, visibility: isPublic ? 'public' : 'private' },
  }
}

/** Converts an error response. Throws CodeHostUnavailable unless the host gave an answer about the repository. */
async function toRefusal({ status, headers, body }: Response): Promise<RepositoryLookup> {
  await body?.cancel()
  if (status === 404 || status === 451) return { kind: 'unknown' }
  const isLimited = isRateLimited(headers)
  if (status === 401 || (status === 403 && !isLimited)) {
    return { kind: 'refused', detail: `The code host refused the credential (${status}).` }
  }
  const seconds = isLimited ? readRetryAfterSeconds(headers) : undefined
  throw new CodeHostUnavailable(`The code host answered ${status}.`, seconds)
}
