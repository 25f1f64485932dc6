import { type Outbound, OutboundFailed, OutboundRefused } from '../platform/outbound/outbound.ts'
import { CodeHostUnavailable, type HostAccess } from './code-host.ts'

export const GITHUB = 'github.com'

export type GithubTools = { outbound: Outbound; baseUrl: string | undefined }

type Wish = { body?: string; bytesMax: number; timeoutMs: number; signal?: AbortSignal }

/** One request to GitHub's API, through our own guard. A redirect is an answer. Throws CodeHostUnavailable. */
export async function askGithub(
  { outbound }: GithubTools,
  url: string,
  { host, token }: HostAccess,
  { body, signal, ...limits }: Wish,
): Promise<Response> {
  const headers = {
    accept: 'application/vnd.github+json',
    'user-agent': 'assay',
    'x-github-api-version': '2022-11-28',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  const trust = host === GITHUB ? 'operator' : 'client'
  const content = body === undefined ? {} : { method: 'POST', body }
  const stop = signal === undefined ? {} : { signal }
  try {
    return await outbound.fetch(url, { headers, trust, redirect: 'manual', ...limits, ...content, ...stop })
  } catch (error) {
    if (!(error instanceof OutboundFailed || error instanceof OutboundRefused)) throw error
    throw new CodeHostUnavailable(`${host} cannot be reached (${error.reason}).`)
  }
}

export const isLimit = (headers: Headers): boolean =>
  headers.has('retry-after') || headers.get('x-ratelimit-remaining') === '0'

const WAIT_MAX_SECONDS = 3600

/** Either a number of seconds, or the time at which the limit ends. */
export function waitOf(headers: Headers): number | undefined {
  const after = Number(headers.get('retry-after') ?? Number.NaN)
  const seconds = Number.isFinite(after) ? after : Number(headers.get('x-ratelimit-reset') ?? 0) - Date.now() / 1000
  return seconds > 0 ? Math.ceil(Math.min(seconds, WAIT_MAX_SECONDS)) : undefined
}
