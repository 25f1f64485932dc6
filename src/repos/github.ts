import { z } from 'zod'
import { type Outbound, OutboundFailed, OutboundRefused } from '../platform/outbound/outbound.ts'
import { type CodeHost, CodeHostUnavailable, type HostAccess, type Lookup } from './code-host.ts'

export const GITHUB = 'github.com'

const TIMEOUT_MS = 15_000
const BYTES_MAX = 1024 * 1024

const Answer = z.object({
  id: z.number().int().positive(),
  name: z.string().min(1),
  owner: z.object({ login: z.string().min(1) }),
  private: z.boolean(),
  visibility: z.string().optional(),
})

type Tools = { outbound: Outbound; baseUrl: string | undefined }

/** GitHub's REST API, through our own guard. One read needs no library; listing pull requests will. */
export const githubHost = (tools: Tools): CodeHost => ({
  async findRepository({ owner, name }, access) {
    const base = baseOf(tools, access)
    const first = await ask(tools, `${base}/repos/${owner}/${name}`, access)
    const response = await followed(tools, base, first, access)
    return response.status === 200 ? found(response) : refusal(response)
  },
})

const baseOf = ({ baseUrl }: Tools, { host }: HostAccess): string =>
  host === GITHUB ? (baseUrl ?? 'https://api.github.com') : `https://${host}/api/v3`

async function ask({ outbound }: Tools, url: string, { host, token }: HostAccess): Promise<Response> {
  const headers = {
    accept: 'application/vnd.github+json',
    'user-agent': 'assay',
    'x-github-api-version': '2022-11-28',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  const trust = host === GITHUB ? 'operator' : 'client'
  try {
    const limits = { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX }
    return await outbound.fetch(url, { headers, trust, redirect: 'manual', ...limits })
  } catch (error) {
    if (!(error instanceof OutboundFailed || error instanceof OutboundRefused)) throw error
    throw new CodeHostUnavailable(`${host} cannot be reached (${error.reason}).`)
  }
}

const REDIRECTS = [301, 302, 307, 308]

/** A repository that was renamed is a redirect. The token goes nowhere but to the same host. */
async function followed(tools: Tools, base: string, response: Response, access: HostAccess): Promise<Response> {
  if (!REDIRECTS.includes(response.status)) return response
  await response.body?.cancel()
  const target = URL.parse(response.headers.get('location') ?? '', base)
  if (target?.origin !== new URL(base).origin) throw new CodeHostUnavailable(`${access.host} sends us elsewhere.`)
  return ask(tools, target.href, access)
}

async function found(response: Response): Promise<Lookup> {
  const body = Answer.safeParse(await response.json().catch(() => undefined))
  if (!body.success) throw new CodeHostUnavailable('The code host answered something that is no repository.')
  const { id, name, owner, private: isPrivate, visibility } = body.data
  // What is internal to an enterprise is not for everybody either.
  const isPublic = !isPrivate && (visibility ?? 'public') === 'public'
  return {
    kind: 'found',
    repository: { id, owner: owner.login, name, visibility: isPublic ? 'public' : 'private' },
  }
}

async function refusal({ status, headers, body }: Response): Promise<Lookup> {
  await body?.cancel()
  if (status === 404 || status === 451) return { kind: 'unknown' }
  const isLimit = headers.has('retry-after') || headers.get('x-ratelimit-remaining') === '0'
  if (status === 401 || (status === 403 && !isLimit)) {
    return { kind: 'refused', detail: `The code host refused the credential (${status}).` }
  }
  const seconds = isLimit ? waitOf(headers) : undefined
  throw new CodeHostUnavailable(`The code host answered ${status}.`, seconds)
}

const WAIT_MAX_SECONDS = 3600

/** Either a number of seconds, or the time at which the limit ends. */
function waitOf(headers: Headers): number | undefined {
  const after = Number(headers.get('retry-after') ?? Number.NaN)
  const seconds = Number.isFinite(after) ? after : Number(headers.get('x-ratelimit-reset') ?? 0) - Date.now() / 1000
  return seconds > 0 ? Math.ceil(Math.min(seconds, WAIT_MAX_SECONDS)) : undefined
}
