import { type Outbound, OutboundFailed, OutboundRefused } from '../platform/outbound/outbound.ts'
import { CodeHostUnavailable, type HostAccess } from './code-host.ts'

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
  const headers = {
    accept: 'application/vnd.github+json',
    'user-agent': 'assay',
    'x-github-api-version': '2022-11-28',
  }
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const trust = host === GITHUB ? 'operator' : 'client'
  const post = body === undefined ? {} : { method: 'POST', body }
  const abort = signal === undefined ? {} : { signal }
  try {
    return await outbound.fetch(url, {
      headers: { ...headers, ...authorization },
      trust,
      redirect: 'manual',
      ...limits,
      ...post,
      ...abort,
    })
  } catch (error) {
    if (!(error instanceof OutboundFailed || error instanceof OutboundRefused)) throw error
    throw new CodeHostUnavailable(`${host} cannot be reached (${error.reason}).`)
  }
}

export const isRateLimited = (headers: Headers): boolean =>
  headers.has('retry-after') || headers.get('x-ratelimit-remaining') === '0'

const WAIT_MAX_SECONDS = 3600

/** Returns the requested pause in seconds, from Retry-After or the reset time of the rate limit. */
export function readRetryAfter(headers: Headers): number | undefined {
  const after = Number(headers.get('retry-after') ?? Number.NaN)
  const seconds = Number.isFinite(after) ? after : Number(headers.get('x-ratelimit-reset') ?? 0) - Date.now() / 1000
  return seconds > 0 ? Math.ceil(Math.min(seconds, WAIT_MAX_SECONDS)) : undefined
}
