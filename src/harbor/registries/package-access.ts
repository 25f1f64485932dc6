import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { z } from 'zod'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import { AccessRefused, RegistryUnavailable } from './registry.ts'
import { readResponseText, sendRegistryRequest } from './registry-request.ts'

/** Access to the package registry, anonymous or with a personal key. */
export type PackageAccess = {
  /** Sends a request. An expired token is renewed once. */
  send(
    path: string,
    init: { method?: string; body?: string; headers?: Record<string, string>; signal: AbortSignal },
  ): Promise<Response>
}

type PackageServer = {
  outbound: Outbound
  url: string
  publicKey: string
  now: () => number
  timeoutMs?: number
}
/** An access token, and the time from which it must be renewed. */
type AccessToken = { value: string; renewAtMs: number }
/** Tokens by a hash of the personal key, so that the keys are not kept in memory. */
export type TokenCache = Map<string, Promise<AccessToken>>

const ExchangeResponse = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() })
/** Tokens are renewed this long before they expire, because clocks may differ. */
const MARGIN_MS = 20_000
const TOKENS_MAX = 200

export function openPackageAccess(server: PackageServer, tokens: TokenCache, key: string | undefined): PackageAccess {
  const { outbound, url, publicKey, timeoutMs } = server
  const limits = timeoutMs === undefined ? {} : { timeoutMs }
  const send = (bearer: string, path: string, { headers, ...init }: Parameters<PackageAccess['send']>[1]) =>
    sendRegistryRequest(outbound, `${url}${path}`, {
      ...limits,
      ...init,
      headers: { ...headers, apikey: publicKey, authorization: `Bearer ${bearer}` },
    })
  return {
    async send(path, init) {
      if (key === undefined) return requireAccepted(await send(publicKey, path, init))
      const token = await getToken(server, tokens, key)
      const first = await send(token, path, init)
      if (!(await isExpired(first))) return requireAccepted(first)
      return requireAccepted(await send(await getToken(server, tokens, key, token), path, init))
    },
  }
}

function requireAccepted(response: Response): Response {
  if (response.status !== 401 && response.status !== 403) return response
  throw new AccessRefused('The registry rejected the key.')
}

/** Detects an expired token: PostgREST answers 401, the storage 400 with a message. Leaves the body readable. */
async function isExpired(response: Response): Promise<boolean> {
  if (response.status === 401 || response.status === 403) return true
  return response.status === 400 && /PGRST30[123]|jwt|exp\W{1,3}claim/i.test(await readResponseText(response.clone()))
}

/** Returns a token. Concurrent callers share one exchange. `rejected` is a token that the registry has rejected. */
async function getToken(server: PackageServer, tokens: TokenCache, key: string, rejected?: string): Promise<string> {
  const cacheKey = hashKey(key)
  const pending = tokens.get(cacheKey)
  const cached = await pending
  if (cached && cached.renewAtMs > server.now() && cached.value !== rejected) return cached.value
  const latest = tokens.get(cacheKey)
  if (latest === pending) return (await cacheToken(tokens, cacheKey, exchangeKey(server, key))).value
  // While this call waited, another one replaced the token, or its exchange failed.
  return (await (latest ?? exchangeKey(server, key))).value
}

/** Caches an exchange as the newest one. Removes the oldest if there are too many. */
function cacheToken(tokens: TokenCache, cacheKey: string, exchange: Promise<AccessToken>): Promise<AccessToken> {
  tokens.delete(cacheKey)
  tokens.set(cacheKey, exchange)
  exchange.catch(() => tokens.delete(cacheKey))
  const [oldest] = tokens.keys()
  if (tokens.size > TOKENS_MAX && oldest !== undefined) tokens.delete(oldest)
  return exchange
}

const hashKey = (key: string): string => createHash('sha256').update(key).digest('hex')

async function exchangeKey(server: PackageServer, key: string): Promise<AccessToken> {
  requireTls(server.url)
  const response = await sendRegistryRequest(server.outbound, `${server.url}/functions/v1/api-key-exchange`, {
    method: 'POST',
    headers: { apikey: server.publicKey, 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: key }),
    redirect: 'error', // the request contains the key
  })
  const text = await readResponseText(response)
  if (response.status === 401 || response.status === 403) {
    throw new AccessRefused('The registry rejected the personal key. It may have expired or been revoked.')
  }
  const { data } = ExchangeResponse.safeParse(parseUntrustedJson(text))
  if (!response.ok || !data)
    throw new RegistryUnavailable(`The registry answered ${response.status} to a personal key.`)
  return { value: data.access_token, renewAtMs: server.now() + data.expires_in * 1000 - MARGIN_MS }
}

/** Requires TLS for a long-lived key, except on this machine. */
function requireTls(url: string): void {
  const { protocol, hostname } = new URL(url)
  const isLoopback =
    hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
  if (protocol === 'https:' || isLoopback) return
  throw new RegistryUnavailable('Personal keys are only sent over https. Change ASSAY_HARBOR_URL.', {
    isPermanent: true,
  })
}
