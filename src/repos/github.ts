import { z } from 'zod'
import { type CodeHost, CodeHostUnavailable, type HostAccess, type Lookup } from './code-host.ts'
import { askGithub, GITHUB, isLimit, type GithubTools as Tools, waitOf } from './github-request.ts'

const TIMEOUT_MS = 15_000
const BYTES_MAX = 1024 * 1024

const Answer = z.object({
  id: z.number().int().positive(),
  name: z.string().min(1),
  owner: z.object({ login: z.string().min(1) }),
  private: z.boolean(),
  visibility: z.string().optional(),
})

/** GitHub's REST API, through our own guard. */
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

const ask = (tools: Tools, url: string, access: HostAccess): Promise<Response> =>
  askGithub(tools, url, access, { timeoutMs: TIMEOUT_MS, bytesMax: BYTES_MAX })

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
  const isForNow = isLimit(headers)
  if (status === 401 || (status === 403 && !isForNow)) {
    return { kind: 'refused', detail: `The code host refused the credential (${status}).` }
  }
  const seconds = isForNow ? waitOf(headers) : undefined
  throw new CodeHostUnavailable(`The code host answered ${status}.`, seconds)
}
